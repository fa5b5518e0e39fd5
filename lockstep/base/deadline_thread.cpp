// A task queue with one detached thread, which shares the state and so survives its owner during a blocking call.
#include <lockstep/base/deadline_thread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace lockstep {

struct DeadlineThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool busy = false;
  bool stopped = false;
  bool gave_up = false;

  void work_until_stopped() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopped || !tasks.empty(); });
      if (stopped) return;
      {
        const auto task = std::move(tasks.front());
        tasks.pop_front();
        busy = true;
        lock.unlock();
        task();
      }  // destroys the task and its data before the thread is reported as idle
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

DeadlineThread::DeadlineThread() : state_(std::make_shared<State>()) {
  std::thread([state = state_] { state->work_until_stopped(); }).detach();
}

DeadlineThread::~DeadlineThread() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->tasks.clear();
  state_->changed.notify_all();
}

bool DeadlineThread::post(std::function<void()> task) {
  const std::lock_guard lock(state_->mutex);
  if (state_->gave_up && state_->busy) return false;
  state_->tasks.push_back(std::move(task));
  state_->changed.notify_all();
  return true;
}

void DeadlineThread::give_up() {
  const std::lock_guard lock(state_->mutex);
  state_->gave_up = true;
}

}  // namespace lockstep
