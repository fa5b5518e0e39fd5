// The optimizers of rows as parts: lazy_sgd, lazy_momentum, lazy_adagrad, lazy_adam and ftrl.
#pragma once

#include <lockstep/train/parts.h>

#include <vector>

namespace lockstep::train {

std::vector<OptimizerPart> row_optimizer_parts();

}  // namespace lockstep::train
