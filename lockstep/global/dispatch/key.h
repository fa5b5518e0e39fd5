// The key of a call in the plan cache: all values that rules and shapes may depend on.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan_cache.h>

#include <ATen/core/stack.h>

#include <c10/util/SmallVector.h>

namespace lockstep::global {

/// A key under construction: no allocation for calls of ordinary length.
using Key = c10::SmallVector<std::int64_t, 96>;

/// Writes the key of the call whose arguments are these. The values of floating-point numbers and scalars are left out:
/// plans do not depend on them. For lengths of sequences, the key has their number and the largest, because shapes
/// depend on these. Returns whether some tensor is a fetched view, which may be outdated.
bool write_key(const OpInfo& info, const torch::jit::Stack& arguments, Key& key);

}  // namespace lockstep::global
