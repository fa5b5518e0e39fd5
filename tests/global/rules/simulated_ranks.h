// A tensor on the ranks of a mesh, in one process and without libtorch: who holds which elements, and what a step may
// take from whom.
#pragma once

#include <lockstep/global/placement.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

class SimulatedRanks {
 public:
  /// Element (r, c) is number r * columns + c, divided as `placements` say.
  SimulatedRanks(std::vector<int> mesh, std::pair<std::int64_t, std::int64_t> sizes, Placements placements);

  /// Carries out a step with what the ranks of each line along its axis hold. Says what is wrong when a rank needs an
  /// element that none of them has, or the step does not begin where the tensor is.
  std::optional<std::string> make(const global::Step& step);

  const Placements& placements() const { return placements_; }
  /// Whether what ranks hold makes up the tensor: says what is wrong otherwise.
  std::optional<std::string> check() const;

 private:
  using Held = std::map<std::pair<std::int64_t, std::int64_t>, double>;

  std::vector<int> coordinate_of(int rank) const;
  int rank_beside(int rank, std::size_t axis, int index) const;
  Held all_of_region(int rank) const;

  std::vector<int> mesh_;
  std::pair<std::int64_t, std::int64_t> sizes_;
  Placements placements_;
  std::vector<Held> held_;
};

}  // namespace lockstep::test
