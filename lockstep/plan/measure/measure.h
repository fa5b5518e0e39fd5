// The measurement of a cluster: the speed of this machine and of the links between the ranks.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/cluster.h>

#include <c10/core/ScalarType.h>

namespace lockstep::plan {

struct MeasureOptions {
  int threads = 1;                    ///< threads of each rank, as system.threads of a run
  int rounds = 5;                     ///< rounds of each measurement; the median is used
  at::ScalarType dtype = at::kFloat;  ///< of matrix products and convolutions, as model.autocast of a run
};

/// Measures the rates of the group's device (Group::device) while all ranks are busy (they share memory and caches),
/// and the time of collectives: between ranks of one host, if there are several, and between hosts. Values that cannot
/// be measured with these ranks keep the defaults of `Cluster`. Takes some seconds. A collective; the result is the
/// same on all ranks. Sets libtorch's number of threads.
Cluster measure_cluster(const Group& group, const MeasureOptions& options = {});

/// Measures matrix products and convolutions with typical sizes of training (forward and both derivatives), elementwise
/// operators on tensors larger than caches, the overhead of an operator of a training step, and the free memory: of the
/// device, or of this host per rank. A collective.
Device measure_device(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
