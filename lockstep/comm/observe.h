// The observation of a job's collectives: when each began and when this rank had its result.
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

}  // namespace lockstep
