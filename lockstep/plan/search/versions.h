// Values whose placements depend on decision variables. Pure.
#pragma once

#include <lockstep/plan/search/space.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::plan {

/// How a value lies for each value of a variable. No variable: it lies in one way.
struct Version {
  std::optional<std::uint32_t> variable;
  std::vector<PlacedAs> as{kReplicated};
};

/// The distinct variables of some values.
struct Variables {
  std::vector<std::uint32_t> all;
  std::vector<std::size_t> sizes;

  void take(const Version& version);
  bool have(const Version& version) const;  ///< or it has no variable
  /// How it lies where variables have the values `at`.
  PlacedAs look(const Version& version, std::span<const std::uint16_t> at) const;
};

/// To the next combination of `sizes`, the last running fastest; the first is all zeros. False when that was the last.
bool advance(std::vector<std::uint16_t>& at, const std::vector<std::size_t>& sizes);

/// All combinations of what is possible along each axis that a tensor may lie in.
std::vector<Placements> all_options(const TensorInfo& info, const std::vector<std::vector<Placement>>& by_axis,
                                    std::span<const int> mesh_sizes);

}  // namespace lockstep::plan
