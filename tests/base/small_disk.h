// A disk that is soon full.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace lockstep::test {

/// Mounts an empty file system of `bytes` bytes over `folder`, for this process only and for good: call it in a forked
/// process. Error(io) when this user may not.
void mount_small_disk(const std::filesystem::path& folder, std::size_t bytes);

/// Why `mount_small_disk` cannot work here; empty when it can.
std::string why_no_small_disk();

}  // namespace lockstep::test
