// The page of the documentation that says what operators can do with divided tensors.
#pragma once

#include <string>

namespace lockstep::global {

/// docs/global_ops.md, in full.
std::string ops_page();

}  // namespace lockstep::global
