// A thread that runs blocking calls, so that the caller can wait for them with a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep {

/// Runs calls one after the other on a thread of its own. A caller waits no longer than its limit. A call that exceeds
/// its limit cannot be cancelled: it is abandoned and continues on its thread. So `work` must own, by value or by
/// shared pointer, all data that it uses. Thread-safe.
class DeadlineThread {
 public:
  DeadlineThread();
  DeadlineThread(const DeadlineThread&) = delete;
  DeadlineThread& operator=(const DeadlineThread&) = delete;
  /// Does not wait: calls that have not started are dropped, and a running call is abandoned.
  ~DeadlineThread();

  /// Returns or throws the result of `work`; nullopt when it took longer than `limit`, or when an earlier call exceeded
  /// its limit and still runs.
  template <typename Work>
  auto within(std::chrono::milliseconds limit, Work work) -> std::optional<decltype(work())> {
    using Task = std::packaged_task<decltype(work())()>;
    const auto task = std::make_shared<Task>(std::move(work));
    auto result = task->get_future();
    if (!post([task] { (*task)(); }) || result.wait_for(limit) != std::future_status::ready) {
      give_up();
      return std::nullopt;
    }
    return result.get();
  }

 private:
  struct State;

  /// False when an abandoned call still runs.
  bool post(std::function<void()> task);
  void give_up();

  std::shared_ptr<State> state_;
};

}  // namespace lockstep
