// What the job service of a job's ranks reports: the losses as of now, as a value.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::cluster {

/// The losses of a job as of now.
struct RankLosses {
  /// Rank and pid of the processes without which the job continues: silent ones, and those that hang. Hosts may have
  /// equal pids.
  std::set<std::pair<int, std::int64_t>> processes{};
  /// The ranks whose places are empty, in their order; nullopt: no rank has registered.
  std::optional<std::vector<int>> ranks{};
  int completed = 0;  ///< the number of jobs that ended well
  bool operator==(const RankLosses&) const = default;
};

}  // namespace lockstep::cluster
