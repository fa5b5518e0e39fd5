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

}  // namespace lockstep
