// The hosts of a group: which of its ranks share one.
#pragma once

#include <lockstep/comm/reduction/sum_tree.h>

#include <cstddef>
#include <vector>

namespace lockstep::detail::hierarchy {

using reduction::RankRange;

/// Hosts count in the order of their lowest rank; the ranks of a host need not follow one another, nor be as many as
/// those of another. The lowest rank of a host leads it.
struct Hosts {
  struct Place {
    int host = 0;
    int local = 0;  ///< position among the host's ranks
    bool operator==(const Place&) const = default;
  };

  std::vector<std::vector<int>> members;  ///< group ranks by host, ascending
  std::vector<Place> places;              ///< by group rank
  Place self;
  /// By host: the subtrees that its ranks form. One each where the ranks of a host follow one another and are a
  /// power of two, the same on all hosts (or fewer on the last).
  std::vector<std::vector<RankRange>> subtrees;

  int count() const { return static_cast<int>(members.size()); }
  int size() const { return static_cast<int>(places.size()); }
  const std::vector<int>& neighbours() const { return members[static_cast<std::size_t>(self.host)]; }
  const Place& place_of(int rank) const { return places[static_cast<std::size_t>(rank)]; }
  const std::vector<RankRange>& own_subtrees() const { return subtrees[static_cast<std::size_t>(self.host)]; }
  bool leads() const { return self.local == 0; }

  int width() const;  ///< ranks on the host that has most
  bool even() const;  ///< equally many on each
  /// Even, and the ranks of the first host come first, then those of the second, and so on.
  bool in_order() const;

  /// A column is the ranks with one local position, one of each host. Where hosts are even each position has one, so
  /// that several connections share the traffic; otherwise there is only that of the leaders.
  int columns() const { return even() ? width() : 1; }
  bool in_column() const { return self.local < columns(); }
  std::vector<int> column(int local) const;  ///< group ranks, by host
};

/// `host_numbers`: of each group rank, counted from 0 in the order of the hosts' lowest ranks.
Hosts hosts_of(const std::vector<int>& host_numbers, int rank);

}  // namespace lockstep::detail::hierarchy
