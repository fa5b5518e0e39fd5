// The optimizers of Lockstep, as parts.
#pragma once

#include <lockstep/train/parts.h>

#include <vector>

namespace lockstep::train {

/// The parts of all files in the list `optimizers` of train/CMakeLists.txt, in its order: optimizer/NAME.cpp (or
/// NAME_parts.cpp) defines `std::vector<OptimizerPart> NAME_parts()`.
std::vector<OptimizerPart> optimizer_parts();

}  // namespace lockstep::train
