// The operations of one process group in their order, and the thread that executes them.
#pragma once

#include <apps/python/meeting.h>
#include <apps/python/tensors.h>
#include <apps/python/torch_work.h>

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::python {

/// The time limit of one operation; none: that of the group.
using Limit = std::optional<std::chrono::milliseconds>;

/// An operation that was called and not executed yet.
struct QueuedCall {
  c10::intrusive_ptr<TorchWork> work;
  CallTensors tensors;
  std::function<void(const Group&, CallTensors&, Limit)> execute;
  Limit limit;
};

/// Executes requests in their order, one at a time, and completes their work while it holds neither its lock nor
/// Python's. Also meets the other ranks, in the background from the beginning. Thread-safe.
class OperationQueue {
 public:
  explicit OperationQueue(Member member);
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;
  ~OperationQueue();

  /// `sync`: the caller waits for the work at once. Then it executes the request itself where no other one is pending,
  /// which saves two switches between threads.
  void push(QueuedCall request, bool sync);

  /// The group for messages, once all ranks have met. Throws what the meeting threw.
  Group await_messages();

  /// Waits up to `patience` for the requests that are pending, makes those that are left fail with `reason`, and ends
  /// the thread. Later requests fail. The other ranks learn of the reason if an operation was left.
  void stop(const std::string& reason, std::chrono::milliseconds patience);

 private:
  void serve();
  void connect();
  void execute(QueuedCall& request);
  void require_own_process() const;
  std::exception_ptr failure();

  const Member member_;
  const pid_t process_;  ///< a forked child has no thread
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<QueuedCall> waiting_;
  std::unique_ptr<MetGroups> connection_;
  std::exception_ptr failure_;  ///< of the meeting, or the reason of the stop
  bool met_ = false;            ///< the meeting is over, and perhaps has failed
  bool busy_ = false;           ///< a thread executes a request
  bool stopping_ = false;
  std::thread thread_;  ///< the last member: it uses the others
};

}  // namespace lockstep::python
