// The pipeline of the hierarchy backend: advances the plans of all pending operations.
//
// Each engine is a lane, on which operations run in the order in which they were called. That order is the same on all
// ranks, so all ranks of an engine run the same sequence, whenever each of them reaches it. While one operation is on
// the network, the next is reduced inside the host and the previous one is broadcast there.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/hierarchy/plans.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace lockstep::detail::hierarchy {

/// There is no thread: plans advance inside calls of this class, and every call advances all of them as far as
/// possible. Thread-safe. A failure in one plan fails all plans, as Error(peer_lost) or Error(timeout); a message
/// itself keeps the kind of its error.
class Pipeline {
 public:
  /// `throw_if_failed` is called every 50 ms while waiting; it throws when a rank of the job has given up.
  explicit Pipeline(std::function<void()> throw_if_failed) : throw_if_failed_(std::move(throw_if_failed)) {}

  /// The returned state refers to the pipeline.
  Backend::Pending start(Plan plan);

  // As in Backend.
  bool is_unfinished() const noexcept { return unfinished_; }
  Progressed advance_all() noexcept;

 private:
  struct Operation;
  class State;
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;
  using Line = std::deque<const Operation*>;

  void wait(const Operation& operation, std::chrono::milliseconds timeout);
  bool test(const Operation& operation);
  void check(const Operation& operation);
  bool advance();
  bool advance(Operation& operation);
  Line* line_of(Lane lane);
  void check_peers(const Operation& operation);
  void fail_all(const Error& error);

  std::function<void()> throw_if_failed_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Operation>> operations_;  ///< not complete, in the order of their calls
  std::array<Line, 4> lines_;                          ///< by Lane: those whose step on it has not started, in order
  std::atomic<bool> unfinished_{false};                ///< whether there are operations
  std::optional<Error> failure_;
};

}  // namespace lockstep::detail::hierarchy
