// The attribution of operators and optimizer state to modules. Pure.
#pragma once

#include <lockstep/plan/graph.h>

#include <cstddef>

namespace lockstep::plan {

using global::common_module;
using global::joining_module;

/// Attributes the operators of the optimizer phase. Operators that are connected by the values they use update one
/// parameter: they get its module, and optimizer state among these values gets its name. Operators connected to several
/// parameters (a common norm) are left unchanged. So are nodes before `first`: work on gradients before the update,
/// such as clipping, connects all parameters.
void attribute_optimizer(Graph& graph, std::size_t first = 0);

}  // namespace lockstep::plan
