// Messages of an agent on its terminal, beside the output of its ranks.
#pragma once

#include <lockstep/cluster/elastic/job_state.h>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string_view>

namespace lockstep::cluster::elastic {

class AgentLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `descriptor`: the output. Its reader may have ended.
  explicit AgentLog(int descriptor) : descriptor_(descriptor) {}

  /// Writes the text unchanged.
  void write(std::string_view text) const { static_cast<void>(!::write(descriptor_, text.data(), text.size())); }

  /// Writes the line with "lockstep run: " before it and a newline after it.
  void tell(std::string_view line) const { write(fmt::format("lockstep run: {}\n", line)); }

  /// Reports which place this node has in the round.
  void tell_place(const JobState& state, const NodePlace& node_place, int ranks) const {
    const int last = node_place.first_rank + ranks - 1;
    const auto which =
        ranks == 1 ? fmt::format("rank {}", last) : fmt::format("ranks {} to {}", node_place.first_rank, last);
    tell(fmt::format("round {}: this is node {} of {}, with {} of {}", state.round, node_place.node, state.nodes, which,
                     state.ranks));
  }

  /// Whether a message about the wait is due: true each time the interval `every` has passed, but not at first.
  bool time_to_tell(Time since, Time now, std::chrono::seconds every = std::chrono::seconds(10)) {
    if (now - since < every || now - told_ < every) return false;
    told_ = now;
    return true;
  }

 private:
  int descriptor_;
  Time told_{};
};

}  // namespace lockstep::cluster::elastic
