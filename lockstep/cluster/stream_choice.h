// A choice of standard streams for each rank: the values of `--redirects` and `--tee`.
#pragma once

#include <map>
#include <string_view>

namespace lockstep::cluster {

struct Streams {
  bool out = false;
  bool err = false;

  bool operator==(const Streams&) const = default;
};

struct StreamChoice {
  Streams rest{};                    ///< of all ranks that `by_rank` does not name
  std::map<int, Streams> by_rank{};  ///< by local rank

  Streams of(int local_rank) const;
  /// Whether any stream of any rank is chosen.
  bool any() const;
};

/// torchrun's grammar: 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all ranks, or such a value for each of some
/// local ranks, "0:3,1:1", and none for the others. Error(invalid_argument) naming `flag` for anything else, also for a
/// rank that comes twice.
StreamChoice parse_stream_choice(std::string_view flag, std::string_view text);

}  // namespace lockstep::cluster
