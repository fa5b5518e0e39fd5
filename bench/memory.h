// How much memory a rank needs.
#pragma once

namespace lockstep::bench {

/// The most memory of this process at any time, in MB (2^20 bytes), where memory that ranks share is divided among
/// them: the resident set's high-water mark, less the shared memory in it, plus this process's part of that
/// (proc(5): VmHWM, RssShmem, Pss_Shmem). 0 where the kernel does not tell.
double peak_memory_mb();

}  // namespace lockstep::bench
