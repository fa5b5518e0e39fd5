// What one device reaches.
#pragma once

#include <lockstep/plan/measure/measure.h>

namespace lockstep::plan {

/// Matrix products and convolutions of sizes that training has (forward and both derivatives), sums of tensors that fit
/// no cache, operators on next to nothing, and the memory that is free on this host, divided by the ranks on it.
Device measure_device(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
