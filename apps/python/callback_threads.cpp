// Threads for callbacks: as many as there are tasks that have not ended.
#include <apps/python/callback_threads.h>

#include <chrono>
#include <thread>
#include <utility>

namespace lockstep::python {

void CallbackThreads::run(std::function<void()> task) {
  std::unique_lock lock(mutex_);
  tasks_.push_back(std::move(task));
  if (static_cast<std::size_t>(idle_) >= tasks_.size()) return work_.notify_one();
  ++busy_;  // the new thread begins with a task
  lock.unlock();
  // Detached: a callback that never ends must not block the end of the group. The thread shares this object.
  std::thread([self = shared_from_this()] { self->serve(); }).detach();
}

void CallbackThreads::serve() {
  constexpr auto kIdle = std::chrono::seconds(5);
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!tasks_.empty()) {
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // its tensors are released before the next wait
      lock.lock();
    }
    --busy_;
    done_.notify_all();
    ++idle_;
    const bool more = work_.wait_for(lock, kIdle, [this] { return !tasks_.empty(); });
    --idle_;
    if (!more) return;
    ++busy_;
  }
}

void CallbackThreads::drain() {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, std::chrono::seconds(1), [this] { return busy_ == 0 && tasks_.empty(); });
}

}  // namespace lockstep::python
