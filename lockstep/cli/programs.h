// The two executables of `lockstep`: a small one that starts ranks, and the whole one, which needs libtorch.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::cli {

/// The file that this process runs.
std::filesystem::path this_program();

/// Whether `name` is a path to it, or to the small program that belongs to it.
bool is_this_program(const std::string& name);

/// Of the small program: the whole one, whatever PATH holds. Error(io) when it is not where it was installed.
std::filesystem::path whole_program_beside();

}  // namespace lockstep::cli
