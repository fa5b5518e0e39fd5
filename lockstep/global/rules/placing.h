// Helpers to write signatures: inputs that are not named are replicated. Pure.
#pragma once

#include <lockstep/global/rules/signature.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::global {

struct PlacedInput {
  std::string_view argument;
  std::optional<Placement> placement;  ///< nullopt: may lie in any way
};

/// Inputs by the schema's names; those that the call was not given are passed over.
Signature placing(const OpCall& call, std::initializer_list<PlacedInput> inputs, std::vector<Placement> outputs);

/// All tensor arguments that were given, and all results, lie in this way.
Signature placing_all(const OpCall& call, const Placement& placement);

/// What broadcasting makes of the tensors from `first` on that were given.
TensorInfo broadcast(const OpCall& call, std::size_t first = 0);

}  // namespace lockstep::global
