// The CPUs that this process may use.
#pragma once

namespace lockstep {

/// The CPUs in this process's affinity mask; 1 when that cannot be read.
int usable_cpus();

}  // namespace lockstep
