// Messages of an agent on its terminal, beside the output of its ranks.
#pragma once

#include <lockstep/cluster/elastic/job_state.h>

#include <chrono>
#include <string>
#include <string_view>

namespace lockstep::cluster::elastic {

class AgentLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `descriptor`: the output. Its reader may have ended.
  explicit AgentLog(int descriptor) : descriptor_(descriptor) {}

  /// Writes the text unchanged.
  void write(std::string_view text) const;

  /// Writes the line with "lockstep run: " before it and a newline after it.
  void tell(std::string_view line) const;

  /// Reports which place this node has in the round.
  void tell_place(const JobState& state, const NodePlace& node_place, int ranks) const;

  /// Whether a message about the wait is due: true each time the interval `every` has passed, but not at first.
  bool time_to_tell(Time since, Time now, std::chrono::seconds every = std::chrono::seconds(10));

 private:
  int descriptor_;
  Time told_{};
};

}  // namespace lockstep::cluster::elastic
