// Which parameter each operator and each tensor of an optimizer is for. Pure.
#pragma once

#include <lockstep/plan/graph.h>

namespace lockstep::plan {

/// Operators of the optimizer's phase that hang together by the values they use update one parameter: they get its
/// module, and the state among these values its name. Those that touch several parameters (a common norm) are left.
void attribute_optimizer(Graph& graph);

}  // namespace lockstep::plan
