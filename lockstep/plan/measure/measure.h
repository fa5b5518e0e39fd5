// Measurements on all ranks: of any work, of a plan against plain data parallel, and of a cluster, the speed of this
// machine and of the links between the ranks.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/plan/cluster.h>
#include <lockstep/plan/plan.h>

#include <c10/core/ScalarType.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::plan {

/// The seconds of one call of `work`, which all ranks start together, on the slowest rank, until their devices have
/// done it. A collective.
double seconds_of_slowest(const Group& group, const std::function<void()>& work);

/// The median over `rounds` rounds of seconds_of_slowest(), after one warm-up round. A collective.
double seconds_together(const Group& group, int rounds, const std::function<void()>& work);

/// Whether data parallel fits into memory according to the plan's alternatives; adds a remark if it does not.
bool may_try_data_parallel(const Plan& plan, std::vector<std::string>& remarks);

/// Measures `steps` steps and returns the seconds of a step.
using MeasuredSteps = std::function<double(int steps)>;

/// Whether a step of the plan takes at most the fraction `at_most` of a step of data parallel, measured over `steps`
/// steps of each, or more short ones that fill half a second. Each is measured twice, and the better result is used,
/// because other load on the machine is unlikely in both. Adds the measurements to `remarks`.
bool beats_data_parallel(int steps, double at_most, const MeasuredSteps& of_plan, const MeasuredSteps& of_data_parallel,
                         std::vector<std::string>& remarks);

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
