// The cost of a plan, by a simulation of one step in the order of its execution. Pure.
#pragma once

#include <lockstep/plan/cost/decisions.h>

#include <vector>

namespace lockstep::plan {

/// How parameters, buffers and inputs lie: for each value of the program (others are ignored).
using Assignment = std::vector<PlacedAs>;

struct Memory {
  Bytes parameters{};  ///< with buffers
  Bytes gradients{};
  Bytes optimizer_state{};
  Bytes activations{};    ///< at the peak, with copies for redistribution
  Bytes communication{};  ///< buckets of gradients

  Bytes total() const { return parameters + gradients + optimizer_state + activations + communication; }
};

struct ModuleCost {
  Seconds compute{};
  Seconds communication{};  ///< all that is not hidden behind computation
  Bytes moved{};            ///< bytes in collectives, of each rank

  Seconds total() const { return compute + communication; }
};

struct Prediction {
  Seconds cost{};  ///< of the step
  Seconds compute{};
  Seconds communication{};   ///< by operators themselves
  Seconds redistribution{};  ///< between operators
  Seconds reduction{};       ///< of gradients, all of it
  Seconds exposed{};         ///< the part of it that the step waits for
  Memory memory;
  Traffic traffic;
  std::vector<ModuleCost> modules;  ///< one for each of Program::modules; empty unless asked for
};

/// Gradients travel in buckets, as reduce_gradients_in_buckets() has it.
struct BucketSizes {
  Bytes first{1 << 20};
  Bytes others{25 << 20};
};

enum class Detail { totals, modules };

/// What each rank does in a step of `program` when values lie as `assignment` says. `decisions` are those of the
/// program, on the mesh that is meant.
Prediction simulate(const Program& program, Decisions& decisions, const Assignment& assignment,
                    Detail detail = Detail::totals, const BucketSizes& buckets = {});

}  // namespace lockstep::plan
