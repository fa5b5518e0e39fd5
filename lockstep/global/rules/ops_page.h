// The generator of docs/global_ops.md, the documentation of operators on divided tensors.
#pragma once

#include <string>

namespace lockstep::global {

/// docs/global_ops.md, in full.
std::string ops_page();

}  // namespace lockstep::global
