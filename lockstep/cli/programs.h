// The two executables of `lockstep`: a small one that starts ranks, and the whole one, which needs libtorch.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::cli {

/// The file that this process runs.
std::filesystem::path this_program();

/// Whether `name` is a path to it, or to the small program that belongs to it.
bool is_this_program(const std::string& name);

/// For the small program: the path of the whole program, independent of PATH. Error(io) when it is not at its install
/// path.
std::filesystem::path whole_program_beside();

}  // namespace lockstep::cli
