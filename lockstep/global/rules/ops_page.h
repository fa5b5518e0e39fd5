// The generator of docs/global_ops.md, the documentation of operators on sharded tensors.
#pragma once

#include <string>

namespace lockstep::global {

/// The complete text of docs/global_ops.md.
std::string ops_page();

}  // namespace lockstep::global
