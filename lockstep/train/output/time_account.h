// The account of a rank's time: how the time from the start of its process divides into the parts of TimePart. It is a
// value without a clock: each function gets the time as an argument, and every moment belongs to exactly one part, so
// the parts always add up to the whole.
#pragma once

#include <lockstep/base/status_page.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace lockstep::train {

/// The duration of each part, by its number.
using PartTimes = std::array<std::chrono::nanoseconds, kTimeParts.size()>;

inline std::chrono::nanoseconds sum_of(const PartTimes& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::chrono::nanoseconds(0));
}

/// A time of this process's steady clock, and the time for which this rank was blocked in collectives up to it.
struct Moment {
  std::chrono::nanoseconds time{};
  std::chrono::nanoseconds blocked{};
};

/// Outlives the sessions of a run that recovers in place. Not thread-safe. Only complete_step() may allocate memory.
class TimeAccount {
 public:
  /// Steps whose blocked times are kept until waits are split off.
  static constexpr std::size_t kKeptSteps = 128;

  /// `begun`: when the process began. The time from then on belongs to `start`.
  explicit TimeAccount(std::chrono::nanoseconds begun) : begun_(begun), since_{begun, {}} {}

  /// From `now` on, time belongs to `part`. Returns the part before. In a step, parts are `data` and `compute`; the
  /// blocked part of both belongs to `communicate`.
  TimePart enter(TimePart part, const Moment& now);
  /// The part goes on, and parts() has its time up to `now`.
  void update(const Moment& now) { close(now); }

  /// Step number `number` of the run begins, with the part `compute`. Its time is `lost` if this job had already
  /// completed a step of that number.
  void begin_step(std::int64_t number, const Moment& now);
  /// The step is complete, and its time counts; the next part is `other`. `splits`: its blocked time is kept, to be
  /// split into `communicate` and `wait`; not more than kKeptSteps.
  void complete_step(const Moment& now, bool splits);

  /// Ranks were lost: the time since the last change of parts, the incomplete step, and the time from now on are
  /// `lost`, until go_on() or begin_step() has reached the furthest step again. Kept blocked times stay `communicate`.
  void lose(std::chrono::nanoseconds now);
  /// A session is ready to train after `step` steps.
  void go_on(std::int64_t step, const Moment& now);

  /// The blocked times of the steps since the last split, which are those of all ranks unless ranks were lost.
  const std::vector<std::chrono::nanoseconds>& kept() const { return kept_; }
  /// Of each kept step, what is more than `least`, the least blocked time of any rank, was the wait for another rank.
  /// Both have the same length.
  void split(std::span<const std::chrono::nanoseconds> least);

  /// Adds the time of earlier processes of this run.
  void add_earlier(const PartTimes& parts);
  /// This process takes the place of a rank that had these parts up to now.
  void take_over(const PartTimes& parts, std::chrono::nanoseconds now);
  /// Steps up to this one were completed before, by any rank.
  void completed_before(std::int64_t step);
  std::int64_t furthest() const { return furthest_; }

  /// The parts up to the last change, without the incomplete step.
  const PartTimes& parts() const { return parts_; }
  /// Those of this process alone. Its time before it took the place of a rank was lost to the job.
  PartTimes own() const;
  /// The part that the present belongs to.
  TimePart now_in() const { return losing_ ? TimePart::lost : part_; }
  /// The time since the beginning, with that of earlier processes. It is computed without the parts.
  std::chrono::nanoseconds wall(std::chrono::nanoseconds now) const { return sum_of(taken_) + (now - begun_); }

 private:
  void close(const Moment& now);

  std::chrono::nanoseconds begun_;
  Moment since_;  ///< the last change of parts
  TimePart part_ = TimePart::start;
  PartTimes parts_{};
  PartTimes taken_{};  ///< of parts_: those of other processes
  PartTimes step_{};   ///< the parts of the incomplete step, not yet in parts_
  bool in_step_ = false;
  bool losing_ = false;  ///< until the furthest step is reached again
  std::int64_t number_ = 0;
  std::int64_t furthest_ = 0;  ///< the last step that was completed
  std::vector<std::chrono::nanoseconds> kept_;
};

}  // namespace lockstep::train
