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
/// nothing depends on them. Of lengths of sequences there are their number and the longest, which shapes depend on.
/// Returns whether some tensor is a fetched view, which may be out of date.
bool write_key(const OpInfo& info, const torch::jit::Stack& arguments, Key& key);

}  // namespace lockstep::global
