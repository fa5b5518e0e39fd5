// The measurement of one device's rates: arithmetic, memory and operator overhead.
#pragma once

#include <lockstep/plan/measure/measure.h>

namespace lockstep::plan {

/// Measures matrix products and convolutions with typical sizes of training (forward and both derivatives), elementwise
/// operators on tensors larger than caches, the overhead of an operator of a training step, and the free memory of this
/// host per rank. A collective.
Device measure_device(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
