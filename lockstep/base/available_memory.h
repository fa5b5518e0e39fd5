// The memory that is still available to a job on this machine; and processes that the kernel killed for lack of memory:
// it sends no notice, but counts them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep {

/// Bytes that this process can allocate without swapping: the machine's estimate (MemAvailable), or less where its
/// control group (version 2) or its own limits (ulimit -d, ulimit -v) leave less. The largest value when none can be
/// read. The folders are those of the kernel; tests pass others.
std::uint64_t available_memory(const std::filesystem::path& proc = "/proc",
                               const std::filesystem::path& cgroup = "/sys/fs/cgroup");

/// The minimum address space in bytes for matrix products, which hang with less: OpenBLAS maps 128 MiB for each thread
/// that multiplies, and retries for ever where it cannot, also while the process exits; and the C library maps 64 MiB
/// for the heap of each thread.
inline constexpr std::uint64_t kLeastAddressSpace = std::uint64_t{512} << 20;
/// The minimum address space in bytes for loading libtorch's libraries.
inline constexpr std::uint64_t kAddressSpaceOfLibtorch = std::uint64_t{1} << 30;

/// Whether a limit on the address space (ulimit -v) leaves this process fewer bytes.
bool lacks_address_space(std::uint64_t least = kLeastAddressSpace);

/// Throws Error(environment) in that case.
void require_address_space(std::uint64_t least = kLeastAddressSpace);

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
