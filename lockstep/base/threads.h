// Threads beside the program's own: blocked signals, for the start of a thread or process that must not handle those of
// the program; and blocking calls that cannot be cancelled, on threads that are left behind when the wait for them ends
// early.
#pragma once

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep {

/// The future result, or exception, of `work`, which runs on a thread of its own. The thread may outlive the caller: so
/// `work` must own, by value or by shared pointer, all data that it uses.
template <typename Work>
auto call_detached(Work work) -> std::future<decltype(work())> {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

/// Returns or throws the result of `work`; nullopt when it took longer than `limit`. The call then goes on without a
/// caller.
template <typename Work>
auto call_within(std::chrono::milliseconds limit, Work work) -> std::optional<decltype(work())> {
  auto result = call_detached(std::move(work));
  if (result.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return result.get();
}

/// Blocks all signals; threads and processes that are started meanwhile inherit the block, until they unblock the
/// signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace lockstep
