// A few threads that work for another thread, which continues meanwhile: for example on measurements of a task, until
// Task::late_sums() (task.h).
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::train {

/// For use by one thread. Its destructor waits for running tasks, and drops the rest.
class WorkPool {
 public:
  /// Without threads, the caller runs each task at once.
  explicit WorkPool(int threads);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Waits while the queue has four times as many tasks as threads, so that their memory stays bounded.
  void add(std::function<void()> work);

  /// Waits until all tasks have ended. Throws the first exception that a task threw since the last wait.
  void wait();

 private:
  void run();

  const std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  int working_ = 0;
  bool ends_ = false;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace lockstep::train
