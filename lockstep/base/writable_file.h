// A test whether a file can be written, before the work that fills it.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep {

/// For a file that long work will fill. Error(invalid_argument) naming `flag`, the source of the path, where no file
/// can be written: it is a folder, or its folder is missing or does not accept a file. Leaves no file.
void require_writable_file(const std::filesystem::path& path, std::string_view flag);

}  // namespace lockstep
