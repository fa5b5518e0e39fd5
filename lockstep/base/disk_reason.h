// The reason for a failed write to a file, as text.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// The text of `error`, an errno; for a full disk or quota also the number of free bytes at `path`, and a remedy.
std::string disk_reason(int error, const std::filesystem::path& path);

}  // namespace lockstep
