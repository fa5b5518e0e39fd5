// The optimizers that Lockstep brings, as parts.
#pragma once

#include <lockstep/train/parts.h>

#include <vector>

namespace lockstep::train {

std::vector<OptimizerPart> optimizer_parts();

}  // namespace lockstep::train
