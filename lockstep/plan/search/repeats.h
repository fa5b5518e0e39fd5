// Folding of repeated layers ("blocks.0", "blocks.1", ...), whose layout is decided once: of each run of equal layers
// the first two and the last are kept, and the second represents all between. Pure.
#pragma once

#include <lockstep/plan/cost/program.h>

#include <vector>

namespace lockstep::plan {

struct Folded {
  Program program;
  /// For each parameter of the whole program, in its order: the value of the folded program that decides for it.
  std::vector<std::size_t> decided_by;
  std::size_t layers_left_out = 0;
};

/// `whole` is compile(graph).
Folded fold_repeats(const Graph& graph, const Program& whole);

}  // namespace lockstep::plan
