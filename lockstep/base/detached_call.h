// Blocking calls that cannot be cancelled, on threads that are left behind when the wait for them ends early.
#pragma once

#include <chrono>
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

}  // namespace lockstep
