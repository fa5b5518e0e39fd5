// The reading of rank, size, local rank and local size from the variables of one launcher. Internal to world/.
#pragma once

#include <lockstep/world/world.h>

#include <optional>
#include <string_view>

namespace lockstep::detail {

/// The names a launcher gives to the four numbers.
struct RankVariables {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
};

/// A world with rank, size and evidence; nullopt when neither variable is set. Error(environment) naming both when one
/// is missing or rank is not below size.
std::optional<World> read_rank_and_size(const Environment& environment, const RankVariables& names);

/// Fills in local rank and local size when both variables are set; otherwise returns false and changes nothing.
/// Error(environment) when local rank is not below local size, or local size is above size.
bool read_local(const Environment& environment, const RankVariables& names, World& world);

/// Appends " NAME=value".
void add_evidence(World& world, std::string_view name, std::string_view value);

}  // namespace lockstep::detail
