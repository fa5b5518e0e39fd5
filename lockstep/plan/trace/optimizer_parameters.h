// The parameter that each operator and each tensor of an optimizer belongs to. Pure.
#pragma once

#include <lockstep/plan/graph.h>

#include <cstddef>

namespace lockstep::plan {

/// Operators of the optimizer's phase that hang together by the values they use update one parameter: they get its
/// module, and the state among these values its name. Those that touch several parameters (a common norm) are left, and
/// so are nodes before `first`: what was done with gradients before, such as clipping, ties all parameters together.
void attribute_optimizer(Graph& graph, std::size_t first = 0);

}  // namespace lockstep::plan
