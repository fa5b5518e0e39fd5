// The thread that sends and receives messages between two ranks of a process group.
#pragma once

#include <apps/python/message_matching.h>

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::python {

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
  void serve();
  bool take(std::deque<QueuedMessage>& begun, std::chrono::microseconds pause, bool idle);
  void count_ended(std::size_t ended);

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
