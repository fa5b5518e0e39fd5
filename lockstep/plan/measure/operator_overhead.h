// The measurement of an operator's overhead: its time apart from computation.
#pragma once

#include <lockstep/plan/measure/measure.h>

namespace lockstep::plan {

/// The seconds per operator of a training step with almost no computation: forward, backward and optimizer of a deep
/// and narrow perceptron of global tensors, divided by its number of traced operators. So it includes everything around
/// the operators of a planned step: autograd, dispatch to ranks, allocation, the optimizer's loop over parameters. A
/// collective.
double operator_overhead(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
