// The key of a call in the plan cache: all that rules and shapes may depend on.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan_cache.h>

#include <ATen/core/stack.h>

#include <vector>

namespace lockstep::global {

/// Writes the key into `key`. The values of floating-point numbers and scalars are left out: nothing depends on them.
void write_key(const OpInfo& info, const torch::jit::Stack& arguments, std::vector<std::int64_t>& key);

}  // namespace lockstep::global
