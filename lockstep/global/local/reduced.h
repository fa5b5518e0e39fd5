// Helpers of the local forms of reductions.
#pragma once

#include <lockstep/global/local/across_ranks.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::global {

/// The dimensions that the call reduces, counted from 0; all where none are given.
std::vector<std::int64_t> dims_or_all(const LocalCall& call);

/// The axes of more than one rank that shard a reduced dimension: partial results must be combined along them.
Axes axes_to_join(const LocalCall& call);

}  // namespace lockstep::global
