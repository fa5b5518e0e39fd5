// The measurement of an operator's overhead, the time beside its work.
#pragma once

#include <lockstep/plan/measure/measure.h>

namespace lockstep::plan {

/// Seconds for each operator of a training step whose tensors are so small that there is next to nothing to compute: a
/// deep and narrow perceptron's, in the global view, with forward, backward and the optimizer, divided by the operators
/// that tracing finds in it. So all counts that planned steps have around their operators: autograd, dispatch to ranks,
/// allocation, the optimizer's loop over parameters. A collective.
double operator_overhead(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
