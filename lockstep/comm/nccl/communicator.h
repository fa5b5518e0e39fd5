// A communicator of NCCL as a handle. It is nonblocking: NCCL's calls return at once, and when a call is not complete
// the thread waits here, with a deadline and a check of the other ranks.
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

/// The limits of a wait for NCCL.
struct Patience {
  std::chrono::steady_clock::time_point deadline;
  std::function<void()> check;  ///< throws when waiting cannot succeed; called about 20 times per second
};

/// A new identifier for a communicator: one rank creates it, and all ranks use the same one.
ncclUniqueId new_id();

/// Errors: Error(peer_lost) with NCCL's message, after which only abort() may follow; Error(timeout) at a deadline; the
/// errors of Patience::check. Thread-safe, but only one thread at a time may launch.
class Communicator {
 public:
  /// Connects to the other ranks, on the current CUDA device.
  Communicator(const ncclUniqueId& id, int rank, int size, const Patience& patience);
  /// A communicator of some ranks of `parent`. All ranks of `parent` call this or stay_out(), and nothing may run on
  /// it. `rank` is this rank's number in the new communicator.
  Communicator(Communicator& parent, int rank, const Patience& patience);
  static void stay_out(Communicator& parent, const Patience& patience);
  /// Waits up to 2 s for the other ranks on this host to close theirs too, and then aborts.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Makes `calls`, which put work on a stream; returns once the work is on it. `what`: for errors.
  void launch(std::string_view what, c10::function_ref<ncclResult_t(ncclComm_t)> calls, const Patience& patience);

  /// Throws Error(peer_lost) when NCCL reports an error of running work.
  void check();

  /// Ends running work, so that streams continue behind it. Any thread.
  void abort() noexcept;

 private:
  void settle(std::string_view what, ncclResult_t result, const Patience& patience);
  bool is_settled(std::string_view what);
  [[noreturn]] void fail_with(std::string_view what, ncclResult_t result) const;

  std::mutex mutex_;  ///< held for each call of NCCL; except at the end, all of them return at once
  ncclComm_t comm_ = nullptr;
};

}  // namespace lockstep::detail::nccl
