// The threads that complete futures, and so run the callbacks that programs have added to them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace lockstep::python {

/// A callback may wait for a later operation, or for the callback of one. So a task never waits for another one to end:
/// where all threads are busy, there is one more. Threads end after some idle seconds. Thread-safe.
class CallbackThreads : public std::enable_shared_from_this<CallbackThreads> {
 public:
  /// Runs `task`, which throws nothing, on a thread that holds no lock.
  void run(std::function<void()> task);

  /// Waits up to a second for all tasks to end. Callers do not hold Python's lock.
  void drain();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<std::function<void()>> tasks_;
  int idle_ = 0;
  int busy_ = 0;
};

}  // namespace lockstep::python
