// The parent of a test server's folder: a file system in memory, as etcd waits for the disk at every write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <system_error>

namespace lockstep::test {

/// /dev/shm where it has room, else the system's temporary folder. A disk that others write to makes an etcd slow
/// enough to fail tests that are about something else.
inline std::filesystem::path memory_folder() {
  std::error_code error;
  const auto space = std::filesystem::space("/dev/shm", error);
  constexpr std::uintmax_t kNeeded = std::uintmax_t{512} << 20;
  if (!error && space.available >= kNeeded) return "/dev/shm";
  return std::filesystem::temp_directory_path();
}

}  // namespace lockstep::test
