// Values whose placements depend on decision variables. Pure.
#pragma once

#include <lockstep/plan/search/space.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::plan {

/// The placements of a value for each value of a variable. Without a variable there is one placement.
struct Version {
  std::optional<std::uint32_t> variable;
  std::vector<PlacedAs> as{kReplicated};
};

/// The distinct variables of some values.
struct Variables {
  std::vector<std::uint32_t> all;
  std::vector<std::size_t> sizes;

  void take(const Version& version);
  bool have(const Version& version) const;  ///< true also if it has no variable
  /// The placements of `version` when the variables have the values `at`.
  PlacedAs look(const Version& version, std::span<const std::uint16_t> at) const;
};

/// Advances `at` to the next combination, the last index varying fastest; the first combination is all zeros. False
/// after the last one.
bool advance(std::vector<std::uint16_t>& at, const std::vector<std::size_t>& sizes);

/// All placements that are possible for a tensor: the allowed combinations of its placements along each axis.
std::vector<Placements> all_options(const TensorInfo& info, const std::vector<std::vector<Placement>>& by_axis,
                                    std::span<const int> mesh_sizes);

}  // namespace lockstep::plan
