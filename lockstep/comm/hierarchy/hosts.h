// The hosts of a group: the ranks that share each of them.
#pragma once

#include <lockstep/comm/reduction/sum_tree.h>

#include <cstddef>
#include <vector>

namespace lockstep::detail::hierarchy {

using reduction::RankRange;

/// Hosts are numbered in the order of their lowest ranks. The ranks of a host need not be consecutive, and their number
/// may differ between hosts. The lowest rank of a host is its leader.
struct Hosts {
  struct Place {
    int host = 0;
    int local = 0;  ///< position among the host's ranks
    bool operator==(const Place&) const = default;
  };

  std::vector<std::vector<int>> members;  ///< group ranks by host, ascending
  std::vector<Place> places;              ///< by group rank
  Place self;
  /// By host: the subtrees that its ranks form. There is one for each host where the ranks of a host are consecutive
  /// and their number is a power of two, the same on all hosts (or fewer on the last).
  std::vector<std::vector<RankRange>> subtrees;

  int count() const { return static_cast<int>(members.size()); }
  int size() const { return static_cast<int>(places.size()); }
  const std::vector<int>& neighbours() const { return members[static_cast<std::size_t>(self.host)]; }
  const Place& place_of(int rank) const { return places[static_cast<std::size_t>(rank)]; }
  const std::vector<RankRange>& own_subtrees() const { return subtrees[static_cast<std::size_t>(self.host)]; }
  bool leads() const { return self.local == 0; }

  int width() const;  ///< number of ranks on the host with the most ranks
  bool even() const;  ///< whether all hosts have the same number of ranks
  /// Whether the hosts are even, and the ranks of the first host come first, then those of the second, and so on.
  bool in_order() const;

  /// A column is the ranks with one local position, one of each host. Where hosts are even there is a column for each
  /// position, so that several connections share the traffic; otherwise there is only the column of the leaders.
  int columns() const { return even() ? width() : 1; }
  bool in_column() const { return self.local < columns(); }
  std::vector<int> column(int local) const;  ///< group ranks, by host
};

/// `host_numbers`: the host of each group rank, numbered from 0 in the order of the hosts' lowest ranks.
Hosts hosts_of(const std::vector<int>& host_numbers, int rank);

}  // namespace lockstep::detail::hierarchy
