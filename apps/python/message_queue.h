// The messages between two ranks of a process group, which are in progress at the same time, and the thread for them.
#pragma once

#include <apps/python/operation_queue.h>

#include <lockstep/comm/collectives.h>

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::python {

/// A message that was sent or is to be received.
struct QueuedMessage {
  c10::intrusive_ptr<TorchWork> work;
  at::Tensor tensor;  ///< of the program
  bool sends = false;
  int peer = 0;
  int tag = 0;
  std::chrono::milliseconds limit;
};

/// Messages may be called in any order, also among collectives, so they have a group and a thread of their own, which
/// begins with the first message. Thread-safe.
class MessageQueue {
 public:
  /// `await_group` waits for the group of all ranks, or throws.
  explicit MessageQueue(std::function<Group()> await_group) : await_group_(std::move(await_group)) {}
  MessageQueue(const MessageQueue&) = delete;
  MessageQueue& operator=(const MessageQueue&) = delete;
  ~MessageQueue();

  void push(QueuedMessage message);

  /// Waits up to `patience` for pending messages, makes the others fail with `reason`, and ends the thread.
  void stop(const std::string& reason, std::chrono::milliseconds patience);

 private:
  struct Pending;
  void serve();
  void start(QueuedMessage message, Group& group, std::vector<Pending>& pending);
  static bool advance(Pending& pending, Group& group);

  const std::function<Group()> await_group_;
  const pid_t process_ = ::getpid();  ///< a forked child has no thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<QueuedMessage> waiting_;
  std::size_t unfinished_ = 0;
  std::string stop_reason_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::python
