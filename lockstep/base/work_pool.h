// A few threads that do work for another thread, which goes on meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

/// One thread uses it. Its destructor waits for work that has begun, and drops the rest.
class WorkPool {
 public:
  /// Without threads, work is done at once by the caller.
  explicit WorkPool(int threads);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Waits while four times as many pieces of work as threads have not begun, so that what they hold stays bounded.
  void add(std::function<void()> work);

  /// Until all work is done. Throws the first exception that a piece of work threw since the last wait.
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

}  // namespace lockstep
