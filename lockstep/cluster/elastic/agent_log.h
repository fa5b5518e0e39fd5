// What an agent says on its terminal, beside what its ranks say.
#pragma once

#include <lockstep/cluster/elastic/job_state.h>

#include <chrono>
#include <string>
#include <string_view>

namespace lockstep::cluster::elastic {

class AgentLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `descriptor`: where it goes; who reads it may be gone.
  explicit AgentLog(int descriptor) : descriptor_(descriptor) {}

  /// As it is.
  void write(std::string_view text) const;

  /// "lockstep run: " before it, and the line's end after it.
  void tell(std::string_view line) const;

  /// This node has this place in the round.
  void tell_place(const JobState& state, const Seat& seat, int ranks) const;

  /// True every 10 s of waiting, but not at first: tell of it.
  bool time_to_tell(Time since, Time now);

 private:
  int descriptor_;
  Time told_{};
};

}  // namespace lockstep::cluster::elastic
