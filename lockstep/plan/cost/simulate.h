// The cost of a plan, by simulation of one step in the order of execution. Pure.
#pragma once

#include <lockstep/plan/cost/decisions.h>

#include <vector>

namespace lockstep::plan {

/// The placements of parameters, buffers and inputs, indexed by the program's values (others are ignored).
using Assignment = std::vector<PlacedAs>;

struct Memory {
  Bytes parameters{};  ///< including buffers
  Bytes gradients{};
  Bytes optimizer_state{};
  Bytes activations{};    ///< at the peak, including copies for redistribution
  Bytes communication{};  ///< gradient buckets

  Bytes total() const { return parameters + gradients + optimizer_state + activations + communication; }
};

struct ModuleCost {
  Seconds compute{};
  Seconds communication{};  ///< communication that is not hidden behind computation
  Bytes moved{};            ///< bytes in collectives, of each rank

  Seconds total() const { return compute + communication; }
};

struct Prediction {
  Seconds cost{};  ///< time of the step
  Seconds compute{};
  Seconds communication{};   ///< collectives inside operators
  Seconds redistribution{};  ///< redistributions between operators
  Seconds reduction{};       ///< reductions of gradients, including the hidden part
  Seconds exposed{};         ///< the part of `reduction` that the step waits for
  Memory memory;
  Traffic traffic;
  std::vector<ModuleCost> modules;  ///< one for each of Program::modules; empty unless requested
};

/// The sizes of gradient buckets, as in reduce_gradients_in_buckets().
struct BucketSizes {
  Bytes first{1 << 20};
  Bytes others{25 << 20};
};

enum class Detail { totals, modules };

/// Predicts a step of `program` on each rank with the placements of `assignment`. `decisions` are those of the program
/// on the same mesh.
Prediction simulate(const Program& program, Decisions& decisions, const Assignment& assignment,
                    Detail detail = Detail::totals, const BucketSizes& buckets = {});

}  // namespace lockstep::plan
