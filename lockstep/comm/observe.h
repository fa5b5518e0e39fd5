// The observation of a job: the last calls of this rank, its report of its training, and the difference between the
// clocks of ranks, which may be on machines that were started at different times.
#pragma once

#include <lockstep/base/status_page.h>
#include <lockstep/comm/group.h>

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

/// The last calls of this rank in all groups of this process (StatusPage::kRemembered of each), the oldest first. Takes
/// about a millisecond. Thread-safe.
std::vector<GroupCalls> recent_calls(const Group& group);

/// The number of a text that says where in the program calls are made ("gradients in bucket 2"), for CallPlace
/// (operator_trace.h); 0 where the page has no room for it. Takes a lock: keep the number.
std::uint32_t name_place(const Group& group, std::string_view text) noexcept;

/// Replaces what this rank reports of its training on its status page, for people who look at the job. One thread calls
/// it. Costs some tens of nanoseconds.
void report_training(const Group& group, const TrainingProgress& training) noexcept;

/// The time for which this rank was blocked in collectives of the job so far, on all threads.
std::chrono::nanoseconds time_blocked(const Group& group) noexcept;

struct ClockOffset {
  std::chrono::nanoseconds
      to_rank_0{};  ///< what to add to a time of this rank's std::chrono::steady_clock to get rank 0's
  std::chrono::nanoseconds accuracy{};  ///< the true difference is at most this much more or less
};

/// The result of one exchange: this rank sent its request and received the reply at these times of its clock, and the
/// reply holds rank 0's time.
ClockOffset offset_from(std::chrono::nanoseconds asked, std::chrono::nanoseconds told,
                        std::chrono::nanoseconds answered);

/// A collective. Each rank in turn requests the time of rank 0 several times. In the exchange with the shortest round
/// trip, rank 0 read its clock between request and reply, so the middle of these two times is exact to half of the time
/// between them (Cristian, "Probabilistic clock synchronization", 1989). A difference that is not larger than this is
/// 0: ranks of one machine have one clock. Takes some round trips for each rank.
ClockOffset clock_offset(const Group& group);

}  // namespace lockstep
