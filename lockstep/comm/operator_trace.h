// The operator trace of a rank in a program that all ranks run alike. It distinguishes a rank that took another branch
// from one that is late.
#pragma once

#include <lockstep/base/error.h>
#include <array>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

/// The steps that a rank took, in order: their number, a running hash, and the texts of the last ones. The steps are
/// operators on global tensors. Ranks that took the same steps have the same hash. Collectives that are called within
/// an OperatorTraceScope carry number and hash. Where these differ, all ranks of the group throw Error(mismatch), and
/// the error names the first step that differs.
///
/// A step that fails on one rank alone does not end the comparison: the trace restarts on that rank, and on the others
/// when they reach a collective with it, which then throws the same error (`fail`, `follow`).
///
/// Only one thread may take steps at a time, or the ranks would not take them in the same order; other threads may
/// read. A trace that differs for any other reason stays different.
class OperatorTrace {
 public:
  static constexpr std::size_t kRemembered = 64;  ///< steps, for messages

  /// State that must be equal on all ranks and is not part of a step (that of a random number generator), as bytes.
  struct Surroundings {
    std::function<std::string()> save;
    std::function<void(const std::string&)> restore;
  };

  /// A step that failed on one rank.
  struct Failure {
    std::uint64_t number = 0;  ///< counted from 1
    ErrorKind kind = ErrorKind::invalid_argument;
    std::string text;          ///< the rank, the step, and its error
    std::string surroundings;  ///< of that rank, after the step failed
  };

  /// `name` is the same on all ranks, and no other trace has it.
  explicit OperatorTrace(std::string name, Surroundings surroundings = {});

  /// Adds a step. `hash` covers all values that must be equal on all ranks; `text` describes the step for messages and
  /// must exist as long as the trace (see `text_for`). Costs a multiplication and a few stores.
  void take(std::uint64_t hash, const std::string& text) noexcept {
    const std::uint64_t number = number_.load(std::memory_order_relaxed) + 1;
    std::uint64_t running = (hash_.load(std::memory_order_relaxed) ^ hash) * 0x9e3779b97f4a7c15U;
    running ^= running >> 32;
    Step& step = steps_[number % kRemembered];
    step.hash.store(running, std::memory_order_relaxed);
    step.text.store(&text, std::memory_order_relaxed);
    hash_.store(running, std::memory_order_relaxed);
    number_.store(number, std::memory_order_relaxed);
  }

  /// The last step failed on this rank, with `error`: the trace restarts at step 1.
  void fail(int rank, ErrorKind kind, std::string_view error);
  /// The last step failed on another rank: restarts the trace here too. Restores the surroundings of that rank.
  void follow(const Failure& failure);
  /// The number of restarts. Ranks can be compared only where it is equal.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

  /// The stored text for this hash, or the result of `make`, which is then stored; for `take`. Thread-safe.
  template <typename Make>
  const std::string& text_for(std::uint64_t hash, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(hash);
    return found != texts_.end() ? found->second : texts_.emplace(hash, make()).first->second;
  }

  /// The text of the last step; nullptr before the first one.
  const std::string* text() const noexcept {
    return steps_[number() % kRemembered].text.load(std::memory_order_relaxed);
  }

  const std::string& name() const { return name_; }
  std::uint64_t number() const noexcept { return number_.load(std::memory_order_relaxed); }
  std::uint64_t hash() const noexcept { return hash_.load(std::memory_order_relaxed); }
  /// "global operator 17, aten::relu of float32[5, 6] [Shard(0)]".
  std::string here() const;
  /// The last steps and failures, for `first_difference` and `failure_to_follow` on another rank.
  std::string notes() const;

 private:
  struct Step {
    std::atomic<std::uint64_t> hash{0};
    std::atomic<const std::string*> text{nullptr};
  };

  void begin_anew(Failure failure);

  std::string name_;
  Surroundings surroundings_;
  std::atomic<std::uint64_t> failures_{0};
  std::deque<Failure> last_failures_;  ///< protected by mutex_
  std::atomic<std::uint64_t> number_{0};
  std::atomic<std::uint64_t> hash_{0};
  std::array<Step, kRemembered> steps_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::string> texts_;
};

/// While it exists, the collectives of this thread use this trace. A null trace changes nothing.
class OperatorTraceScope {
 public:
  explicit OperatorTraceScope(OperatorTrace* trace) noexcept;
  ~OperatorTraceScope();
  OperatorTraceScope(const OperatorTraceScope&) = delete;
  OperatorTraceScope& operator=(const OperatorTraceScope&) = delete;

 private:
  OperatorTrace* before_;
};

/// The trace of the innermost scope of this thread; nullptr outside of any.
OperatorTrace* current_trace() noexcept;

/// While it exists, the status page says that the calls of this thread are made at this place of the program, a number
/// of name_place() (observe.h).
class CallPlace {
 public:
  explicit CallPlace(std::uint32_t place) noexcept;
  ~CallPlace();
  CallPlace(const CallPlace&) = delete;
  CallPlace& operator=(const CallPlace&) = delete;

 private:
  std::uint32_t before_;
};

/// The place of the innermost CallPlace of this thread; 0 outside of any.
std::uint32_t current_place() noexcept;

namespace detail {

struct NotesOfRank {
  int rank = 0;
  std::string notes;  ///< OperatorTrace::notes(); empty: not known
};

/// The failures in the notes of all ranks.
struct Failures {
  std::optional<OperatorTrace::Failure> next;  ///< the first failure that this rank has not followed
  bool others_behind = false;                  ///< some ranks have not followed the last failure of this rank
  bool some_silent = false;                    ///< the notes of some ranks are missing
};

/// Evaluates the notes for a rank with `own` failures.
Failures failures_in(const std::vector<NotesOfRank>& all, std::uint64_t own);

/// "The first difference is global operator 15: rank 0: aten::relu of float32[4]; rank 1: aten::tanh of float32[4]";
/// nullopt where all known steps are equal.
std::optional<std::string> first_difference(const std::vector<NotesOfRank>& all);

}  // namespace detail
}  // namespace lockstep
