// The measurement of a cluster: the speed of this machine and of the links between the ranks.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/cluster.h>

namespace lockstep::plan {

struct MeasureOptions {
  int threads = 1;  ///< of each rank, as system.threads of a run
  int rounds = 5;   ///< of each measurement; the median counts
};

/// Measures what one device reaches while all ranks are busy (they share memory and caches), and what collectives take:
/// between ranks of one host, where there are several, and between hosts. What cannot be measured with these ranks
/// keeps the default of `Cluster`. Takes some seconds. A collective; the same on all ranks. Sets libtorch's threads.
Cluster measure_cluster(const Group& group, const MeasureOptions& options = {});

}  // namespace lockstep::plan
