// Helpers that local forms of reductions share.
#pragma once

#include <lockstep/global/local/across_ranks.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::global {

/// The dimensions that the call reduces, counted from 0; all where none are given.
std::vector<std::int64_t> dims_or_all(const LocalCall& call);

/// The axes of more than one rank along which parts of a reduced dimension lie: their ranks have something to join.
Axes axes_to_join(const LocalCall& call);

}  // namespace lockstep::global
