// A thread that runs calls with a deadline, for calls that have none of their own.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep {

/// Does calls one after the other on a thread of its own. A caller waits no longer than its limit; a call that then
/// still has not returned (nothing can end it from outside) is left behind with what it works on, so `work` owns, by
/// value or by shared pointer, all that it touches. Thread-safe.
class DeadlineThread {
 public:
  DeadlineThread();
  DeadlineThread(const DeadlineThread&) = delete;
  DeadlineThread& operator=(const DeadlineThread&) = delete;
  /// Waits for nothing: what is not done by now is dropped, or left behind.
  ~DeadlineThread();

  /// What `work` returns or throws; nullopt when that took longer than `limit`, or a call before did and still does.
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

  /// False when a call was left behind.
  bool post(std::function<void()> task);
  void give_up();

  std::shared_ptr<State> state_;
};

}  // namespace lockstep
