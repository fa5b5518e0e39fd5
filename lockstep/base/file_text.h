// Reading a small file as a whole.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep {

/// The bytes of `file`; nullopt, and the reason in errno, when it cannot be opened or read to its end.
std::optional<std::string> read_file(const std::filesystem::path& file);

}  // namespace lockstep
