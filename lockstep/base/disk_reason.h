// Why a file could not be written, in words.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// The text of `error`, an errno; for a full disk or quota also how many bytes are free where `path` is, and what to
/// do.
std::string disk_reason(int error, const std::filesystem::path& path);

}  // namespace lockstep
