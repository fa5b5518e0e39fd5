// The choice of a signature for each mesh axis: the one that moves the fewest bytes, of inputs now and to reduce its
// partial results later. Pure.
#pragma once

#include <lockstep/global/rules/signature.h>

#include <optional>
#include <span>
#include <vector>

namespace lockstep::global {

/// The chosen placements of the inputs, and the resulting ones of the outputs.
struct Choice {
  std::vector<Placements> inputs;   ///< one for each of OpCall::tensors
  std::vector<Placements> outputs;  ///< one for each of OpCall::outputs
  bool unread_self = false;         ///< the rule does not read input 0 (nullopt on every axis)
  double bytes = 0;                 ///< bytes that each rank receives for redistribution of the inputs, and later to
                                    ///< reduce partial results that this choice caused
};

/// Chooses a signature of `rule` (nullptr: everything replicated) for each axis. `now` has the placements of the
/// inputs, `wanted[i]` those that output i must have because it is written in place. A value is made partial only if no
/// other signature gives the required output.
Choice choose(const Rule* rule, const OpCall& call, const std::vector<Placements>& now,
              const std::vector<std::optional<Placements>>& wanted, std::span<const int> mesh_sizes);

/// The signatures from which choose() selects along an axis of `ranks` ranks of a mesh of `all_ranks`. They depend on
/// the arguments only.
std::vector<Signature> candidates_of(const Rule* rule, OpCall call, int ranks, int all_ranks);

/// Like choose(), with candidates computed once: `candidates[axis]` are candidates_of() that axis.
Choice choose_among(std::span<const std::vector<Signature>* const> candidates, const OpCall& call,
                    const std::vector<Placements>& now, const std::vector<std::optional<Placements>>& wanted,
                    std::span<const int> mesh_sizes);

}  // namespace lockstep::global
