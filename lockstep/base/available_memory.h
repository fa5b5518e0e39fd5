// The memory that is still available to a job on this machine.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep {

/// Bytes that this process can allocate without swapping: the machine's estimate (MemAvailable), or less where its
/// control group (version 2) or its own limits (ulimit -d, ulimit -v) leave less. The largest value when none can be
/// read. The folders are those of the kernel; tests pass others.
std::uint64_t available_memory(const std::filesystem::path& proc = "/proc",
                               const std::filesystem::path& cgroup = "/sys/fs/cgroup");

}  // namespace lockstep
