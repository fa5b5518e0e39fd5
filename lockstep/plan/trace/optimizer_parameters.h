// The parameter that each operator and each tensor of an optimizer belongs to. Pure.
#pragma once

#include <lockstep/plan/graph.h>

#include <cstddef>

namespace lockstep::plan {

/// Attributes the operators of the optimizer phase. Operators that are connected by the values they use update one
/// parameter: they get its module, and optimizer state among these values gets its name. Operators connected to several
/// parameters (a common norm) are left unchanged. So are nodes before `first`: work on gradients before the update,
/// such as clipping, connects all parameters.
void attribute_optimizer(Graph& graph, std::size_t first = 0);

}  // namespace lockstep::plan
