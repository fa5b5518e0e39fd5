// Helpers to construct signatures: inputs that are not named are replicated. Pure.
#pragma once

#include <lockstep/global/rules/signature.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::global {

struct PlacedInput {
  std::string_view argument;
  std::optional<Placement> placement;  ///< nullopt: any placement
};

/// A signature from inputs by their names in the schema; those that the call does not have are ignored.
Signature placing(const OpCall& call, std::initializer_list<PlacedInput> inputs, std::vector<Placement> outputs);

/// A signature in which all given tensor arguments, and all results, have this placement.
Signature placing_all(const OpCall& call, const Placement& placement);

/// The broadcast shape of the given tensors from index `first` on.
TensorInfo broadcast(const OpCall& call, std::size_t first = 0);

}  // namespace lockstep::global
