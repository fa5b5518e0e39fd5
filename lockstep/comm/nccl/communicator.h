// A communicator of NCCL as a handle. It is nonblocking: NCCL's calls return at once, and where one is not complete the
// thread waits here, with a deadline and an eye on the other ranks.
#pragma once

#include <c10/util/FunctionRef.h>

#include <nccl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

namespace lockstep::detail::nccl {

inline bool went_well(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

/// How long to wait for NCCL.
struct Patience {
  std::chrono::steady_clock::time_point deadline;
  std::function<void()> check;  ///< throws where waiting is of no use; about 20 times a second
};

/// The name of a communicator that does not exist yet: made by one rank, the same on all.
ncclUniqueId new_id();

/// Errors: Error(peer_lost) with NCCL's words, after which only abort() may follow; Error(timeout) at a deadline; what
/// Patience::check throws. Thread-safe, but one thread at a time launches.
class Communicator {
 public:
  /// Meets the other ranks, on the current CUDA device.
  Communicator(const ncclUniqueId& id, int rank, int size, const Patience& patience);
  /// A communicator of some ranks of `parent`, all of which call this or stay_out(); nothing may run on it. In the
  /// new one this rank has number `rank`.
  Communicator(Communicator& parent, int rank, const Patience& patience);
  static void stay_out(Communicator& parent, const Patience& patience);
  /// Gives the others on this host up to 2 s to close theirs, too, and then aborts.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Makes `calls`, which put work on a stream; returns once it is there. `what`: for errors.
  void launch(std::string_view what, c10::function_ref<ncclResult_t(ncclComm_t)> calls, const Patience& patience);

  /// Throws Error(peer_lost) when NCCL reports an error of what runs.
  void check();

  /// Ends what runs, and lets streams get past it. Any thread.
  void abort() noexcept;

 private:
  void settle(std::string_view what, ncclResult_t result, const Patience& patience);
  bool is_settled(std::string_view what);
  [[noreturn]] void fail_with(std::string_view what, ncclResult_t result) const;

  std::mutex mutex_;  ///< held for each call of NCCL, all of which return at once, but for the end
  ncclComm_t comm_ = nullptr;
};

}  // namespace lockstep::detail::nccl
