// The libraries that a program is linked against.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace lockstep::cluster {

/// The names in the program's own list (DT_NEEDED), not those that these libraries need in turn. Empty for any file
/// that is not a dynamically linked program for this kind of machine: scripts, static programs, unreadable files.
std::set<std::string> needed_libraries(const std::filesystem::path& program);

}  // namespace lockstep::cluster
