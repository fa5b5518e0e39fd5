// The heartbeat thread of an agent: it ticks the membership while the agent waits for its ranks.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/elastic/agent_membership.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace lockstep::cluster::elastic {

/// An eventfd: readable between `raise` and `lower`.
class Flag {
 public:
  /// Error(io) when the process has no descriptors left.
  Flag();
  void raise() noexcept;
  void lower() noexcept;
  int fd() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

/// Ticks a membership, from the construction (which joins) on. An error on the thread is kept for `state`. The
/// functions are only for the thread that made the object.
class Watcher {
 public:
  explicit Watcher(AgentMembership membership);
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher();

  Ticket ticket() const { return ticket_; }
  const Keys& keys() const { return keys_; }

  /// Sends the report at once.
  void say(const NodeReport& report);

  /// Ends the thread; nothing is sent any more.
  void stop();

  /// Waits until the last report is sent, or the thread has ended; no longer than `limit`.
  void wait_told(std::chrono::milliseconds limit);

  /// Readable when `state` has something new.
  int changed_fd() const { return changed_.fd(); }

  /// The state as of the last tick; throws the error that ended the thread.
  JobState state();

  /// Readable once this round is over, or the thread has ended; for one round at a time.
  int over_fd(int round);

 private:
  void run();
  void publish_locked();

  AgentMembership membership_;
  const Ticket ticket_;
  const Keys keys_;
  Flag changed_;
  Flag over_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
  std::optional<NodeReport> to_say_;
  bool told_ = true;
  int round_ = 0;  ///< that over_ is about
  JobState state_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace lockstep::cluster::elastic
