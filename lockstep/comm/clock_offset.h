// The difference between the clocks of ranks, which may be on machines that were started at different times.
#pragma once

#include <lockstep/comm/group.h>

#include <chrono>

namespace lockstep {

struct ClockOffset {
  std::chrono::nanoseconds
      to_rank_0{};  ///< what to add to a time of this rank's std::chrono::steady_clock to get rank 0's
  std::chrono::nanoseconds accuracy{};  ///< the true difference is at most this much more or less
};

/// What one question tells: this rank asked and had the answer at these times of its clock, and rank 0 told its time.
ClockOffset offset_from(std::chrono::nanoseconds asked, std::chrono::nanoseconds told,
                        std::chrono::nanoseconds answered);

/// A collective. Each rank in turn asks rank 0 for its time, some times: in the answer that came soonest, rank 0 read
/// its clock between the question and the answer, so their middle is right to half of the time between them (Cristian,
/// "Probabilistic clock synchronization", 1989). A difference that is no larger than that is 0: ranks of one machine
/// have one clock. Takes some round trips for each rank.
ClockOffset clock_offset(const Group& group);

}  // namespace lockstep
