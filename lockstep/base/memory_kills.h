// Processes that the kernel killed for lack of memory: it sends no notice, but counts them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep {

/// The kernel's data about the memory of a control group, or of the machine.
struct MemoryAccount {
  std::uint64_t kills = 0;               ///< processes of the group that the kernel killed for lack of memory, so far
  bool of_machine = false;               ///< no group counts them: the numbers are those of the whole machine
  std::optional<std::uint64_t> limit{};  ///< bytes, the smallest limit of the group and its parents
  std::optional<std::uint64_t> peak{};   ///< bytes, the peak use of the group with that limit
};

/// The account of this process's control group (version 2: memory.events, version 1: memory.oom_control), else that of
/// the machine (/proc/vmstat); nullopt where the kernel has no counter. The folders are those of the kernel; tests pass
/// others.
std::optional<MemoryAccount> memory_account(const std::filesystem::path& proc = "/proc",
                                            const std::filesystem::path& cgroup = "/sys/fs/cgroup");

/// "the kernel killed it for lack of memory (limit 512 MiB, peak 512 MiB)".
std::string describe_memory_kill(const MemoryAccount& account);

}  // namespace lockstep
