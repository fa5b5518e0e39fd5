// Processes that the kernel killed for lack of memory: it tells nobody, but counts them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep {

/// What the kernel says of the memory of a control group, or of the machine.
struct MemoryAccount {
  std::uint64_t kills = 0;               ///< processes of the group that the kernel killed for lack of memory, so far
  bool of_machine = false;               ///< no group counts them: those of the whole machine
  std::optional<std::uint64_t> limit{};  ///< bytes, the least of the group and those around it
  std::optional<std::uint64_t> peak{};   ///< bytes, the most that the group with that limit has used
};

/// The account of this process's control group (version 2: memory.events, version 1: memory.oom_control), else that of
/// the machine (/proc/vmstat); nullopt where the kernel counts none. The folders are those of the kernel; tests pass
/// others.
std::optional<MemoryAccount> memory_account(const std::filesystem::path& proc = "/proc",
                                            const std::filesystem::path& cgroup = "/sys/fs/cgroup");

/// "the kernel killed it for lack of memory (limit 512 MiB, peak 512 MiB)".
std::string describe_memory_kill(const MemoryAccount& account);

}  // namespace lockstep
