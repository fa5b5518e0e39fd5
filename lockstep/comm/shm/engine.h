// The engine of the shared-memory backend: advances a rank's pending operations on one group, waits for them, and
// detects lost ranks. Does not use tensors.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/shm/collective.h>
#include <lockstep/comm/shm/point_to_point.h>
#include <lockstep/comm/shm/spin_then_sleep.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::shm {

struct EngineOptions {
  int rank = 0;
  int cpus = 1;                     ///< CPUs on which the group's ranks may run, all together
  std::vector<int> world_ranks;     ///< for messages, by rank; empty: not named
  std::vector<UniqueFd> lifelines;  ///< by rank: readable once that process has ended; empty or closed: not watched
  /// Called every 50 ms while waiting, with the ranks that are waited for; may throw to end the wait.
  std::function<void(const std::vector<int>&)> while_waiting;
};

/// Operations make progress only inside calls of this class: there is no thread. Every call advances all operations as
/// far as possible. Thread-safe, but all ranks must call collectives in the same order.
///
/// Errors: peer_lost when a rank that is waited for has died or left, or when another rank reports this; timeout. After
/// peer_lost every call throws it again.
class Engine {
 public:
  /// `memory` keeps the segment mapped.
  Engine(const Segment& segment, std::shared_ptr<void> memory, EngineOptions options);
  /// Publishes that this rank has left the group; operations that need data from it fail.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Segment& segment() const { return segment_; }
  int rank() const { return options_.rank; }

  void submit(std::shared_ptr<Collective> collective);
  void submit(std::shared_ptr<Send> send);
  void submit(std::shared_ptr<Receive> receive);

  /// Whether `wait` would not block. Never throws.
  bool test(ShmOperation& operation) noexcept;
  /// Throws the operation's error, or Error(timeout) naming the ranks that are waited for, after which the operation
  /// continues and may be waited for again.
  void wait(ShmOperation& operation, std::chrono::milliseconds timeout);

  /// Whether any operation is pending. Costs one load.
  bool is_unfinished() const noexcept { return unfinished_.load(std::memory_order_relaxed); }
  /// Advances all operations as far as possible, unless another thread is in a call. Returns whether anything moved.
  bool advance_all() noexcept;

  /// For callers that test instead of waiting: throws the operation's error, including one that is detected only now
  /// because a rank that is waited for has ended.
  void check(ShmOperation& operation);

  /// This rank gives up: all waits, on this and other ranks, throw Error(peer_lost).
  void abort() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  void throw_if_failed();
  void advance() noexcept;
  void note_unfinished() noexcept;
  std::uint64_t moved() const { return endpoint_.activity() + messages_moved_; }
  template <typename Step>
  void fail_on_error(const Step& step) noexcept;
  void sleep(ShmOperation& operation, Clock::time_point until, Lock& lock);
  std::vector<Lack> lacks_before(const ShmOperation& operation) const;
  std::vector<int> awaited(const ShmOperation& operation) const;
  void check_peers(const ShmOperation& operation);
  std::optional<Failure::Cause> gone(int rank) const;
  void report(Failure::Cause cause, int culprit) noexcept;
  void fail_all(const Error& error) noexcept;
  Error describe_failure() const;
  Error describe_timeout(const ShmOperation& operation) const;
  std::string rank_name(int rank) const;

  Segment segment_;
  std::shared_ptr<void> memory_;
  EngineOptions options_;
  WaitStrategy strategy_;
  std::mutex mutex_;
  Endpoint endpoint_;
  PointToPoint point_to_point_;
  std::deque<std::shared_ptr<Collective>> collectives_;  // in order, from the first that is not complete
  std::vector<std::shared_ptr<Message>> messages_;
  std::uint64_t messages_moved_ = 0;
  std::atomic<bool> unfinished_{false};
  std::optional<Error> failure_;
};

}  // namespace lockstep::shm
