// Where a rank is in a program that all ranks run alike, so that a rank that took another branch is told from one that
// is late.
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

/// The steps that a rank took, one after the other: how many, a running hash, and what the last of them were. The steps
/// are operators on global tensors. Ranks that took the same ones have the same hash. Collectives that are called
/// within a CourseScope carry number and hash, and are Error(mismatch) on all ranks of the group where those differ;
/// the error names the first step that differs.
///
/// A step that fails on one rank alone does not end that: the course begins anew there, and on the other ranks when
/// they come to a collective with it, which then throws the same error (`fail`, `follow`).
///
/// One thread takes steps at a time, or the ranks would not take them in the same order; reading beside it is safe. A
/// course that differs for any other reason differs for good.
class Course {
 public:
  static constexpr std::size_t kRemembered = 64;  ///< steps, for messages

  /// What is to be equal on all ranks and no step tells (where a generator of random numbers is), as bytes.
  struct Surroundings {
    std::function<std::string()> save;
    std::function<void(const std::string&)> restore;
  };

  /// A step that failed on one rank.
  struct Failure {
    std::uint64_t number = 0;  ///< counted from 1
    ErrorKind kind = ErrorKind::invalid_argument;
    std::string text;          ///< which rank in which step, and its error
    std::string surroundings;  ///< there, after it failed
  };

  /// `name` is the same on all ranks, and no other course's.
  explicit Course(std::string name, Surroundings surroundings = {});

  /// One step more. `hash` is of all that has to be equal on all ranks; `text` says it for people and must live as long
  /// as the course (see `text_for`). A multiplication and a few stores.
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

  /// The last step failed on this rank, with `error`: the course begins anew, with step 1.
  void fail(int rank, ErrorKind kind, std::string_view error);
  /// It failed on another rank: the same here. Restores the surroundings of that rank.
  void follow(const Failure& failure);
  /// How often it began anew. Ranks may be compared where this is equal.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

  /// The text that was made for this hash before, or that `make` makes now; kept for `take`. Thread-safe.
  template <typename Make>
  const std::string& text_for(std::uint64_t hash, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(hash);
    return found != texts_.end() ? found->second : texts_.emplace(hash, make()).first->second;
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
  std::deque<Failure> last_failures_;  ///< under mutex_
  std::atomic<std::uint64_t> number_{0};
  std::atomic<std::uint64_t> hash_{0};
  std::array<Step, kRemembered> steps_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::string> texts_;
};

/// While alive, collectives that this thread calls are made on this course. A null one changes nothing.
class CourseScope {
 public:
  explicit CourseScope(Course* course) noexcept;
  ~CourseScope();
  CourseScope(const CourseScope&) = delete;
  CourseScope& operator=(const CourseScope&) = delete;

 private:
  Course* before_;
};

/// That of the innermost scope of this thread, nullptr outside.
Course* current_course() noexcept;

namespace detail {

struct NotesOfRank {
  int rank = 0;
  std::string notes;  ///< Course::notes(); empty: not known
};

/// What the notes say of failures.
struct Failures {
  std::optional<Course::Failure> next;  ///< the first that this rank has not followed
  bool others_behind = false;           ///< some have not followed the last of this rank
  bool some_silent = false;             ///< some have said nothing
};

/// As the rank that has had `own` failures sees it.
Failures failures_in(const std::vector<NotesOfRank>& all, std::uint64_t own);

/// "The first difference is global operator 15: rank 0: aten::relu of float32[4]; rank 1: aten::tanh of float32[4]";
/// nullopt where all that is known is equal.
std::optional<std::string> first_difference(const std::vector<NotesOfRank>& all);

}  // namespace detail
}  // namespace lockstep
