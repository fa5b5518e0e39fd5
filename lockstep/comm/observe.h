// The observation of a job's collectives: when each began and when this rank had its result; and the difference between
// the clocks of ranks, which may be on machines that were started at different times.
#pragma once

#include <lockstep/comm/group.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace lockstep {

/// One collective or message on this rank. The texts are valid only during the call of the listener.
struct CollectiveSpan {
  std::string_view op;       ///< "all_reduce"
  std::string_view group;    ///< "world"
  std::uint64_t number = 0;  ///< in its group, the same on all ranks; each rank counts its messages separately
  std::uint64_t bytes = 0;   ///< of the tensor that this rank gives, else of the received one; scatter: of a slice
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;  ///< of an asynchronous one: when this rank had waited for it
};

using CollectiveListener = std::function<void(const CollectiveSpan&)>;

/// While it exists, `listener` is called for each successful collective of all groups of the job, on the thread that
/// waited for it. Several threads may call it at once, and a last call may follow just after the observer is destroyed,
/// so the objects that `listener` refers to must live as long as `listener`. An exception of the listener is logged and
/// does not affect the collective. Error(invalid_argument) where the job already has an observer. Without an observer,
/// a collective reads one more variable.
class CollectiveObserver {
 public:
  CollectiveObserver(const Group& group, CollectiveListener listener);
  ~CollectiveObserver();
  CollectiveObserver(const CollectiveObserver&) = delete;
  CollectiveObserver& operator=(const CollectiveObserver&) = delete;

 private:
  Group group_;
};

/// Whether there is an observer of the group's job in this process.
bool is_observed(const Group& group);

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
