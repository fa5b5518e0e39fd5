// The number of ranks that `--nproc-per-node` asks for.
#pragma once

#include <lockstep/base/usable_cpus.h>

#include <string_view>

namespace lockstep::cluster {

/// The CPUs and GPUs of this machine.
struct Processors {
  int cpus = 1;  ///< that this process may run on
  int gpus = 0;
};

/// A number of at least 1, or "cpu" (one rank per CPU), "gpu" (one per GPU), "auto" (per GPU, else per CPU).
/// Error(invalid_argument) for anything else, and for "gpu" without a GPU.
int parse_process_count(std::string_view text, const Processors& available);

using lockstep::usable_cpus;

}  // namespace lockstep::cluster
