// The measurement of one device's rates: arithmetic, memory and operator overhead.
#pragma once

#include <lockstep/plan/measure/measure.h>

namespace lockstep::plan {

/// Matrix products and convolutions of sizes that training has (forward and both derivatives), elementwise operators on
/// tensors that fit no cache, the time that an operator of a training step takes beside its work, and the memory that
/// is free on this host, divided by the ranks on it.
Device measure_device(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
