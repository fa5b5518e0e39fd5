// The observation of a job's collectives: when each began and when this rank had its result.
#pragma once

#include <lockstep/comm/group.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace lockstep {

/// One collective or message on this rank. The texts are valid during the call that gets it.
struct CollectiveSpan {
  std::string_view op;       ///< "all_reduce"
  std::string_view group;    ///< "world"
  std::uint64_t number = 0;  ///< in its group, the same on all ranks; messages count by themselves on each rank
  std::uint64_t bytes = 0;   ///< of the tensor that this rank gives, or gets where it gives none; scatter: of a slice
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;  ///< of an asynchronous one: when this rank had waited for it
};

using CollectiveListener = std::function<void(const CollectiveSpan&)>;

/// While it exists, `listener` is told of each collective, of all groups of the job, that ends well, on the thread that
/// waited for it: several may call at once, and a last one just after the observer is gone, so what `listener` refers
/// to must live as long as it. An exception of it is logged, and the collective counts all the same.
/// Error(invalid_argument) where another one exists for the job. Without one, a collective reads one more variable.
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
