// What lies in /dev/shm, for tests that something leaves nothing there.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace lockstep::test {

/// The names of files there. Other tests run meanwhile: Open MPI's segments and the folders of servers do not count.
inline std::set<std::string> shared_memory_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    const bool of_mpi = name.starts_with("vader_segment.") || name.starts_with("sm_segment.");
    std::error_code gone;
    if (!of_mpi && !entry.is_directory(gone)) names.insert(name);
  }
  return names;
}

}  // namespace lockstep::test
