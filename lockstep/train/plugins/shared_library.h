// A shared library as the bytes of its file, checked before it is loaded.
#pragma once

#include <string_view>

namespace lockstep::train {

/// Error(data), without the file's name, unless `bytes` are a whole 64-bit ELF file of a shared library for this
/// machine. dlopen() does not check that they are whole: it maps the parts that the file should have, and the process
/// ends with SIGBUS when one of them is read.
void require_shared_library(std::string_view bytes);

}  // namespace lockstep::train
