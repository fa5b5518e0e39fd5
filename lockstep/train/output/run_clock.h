// The clock of a run: it keeps the account of this rank's time up to date in a group, agrees on it with the other ranks
// (waits, and what a process takes over), and shows it on the status page with the progress of the training.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/output/time_account.h>
#include <lockstep/train/trained_run.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::train {

/// What a rank keeps of its times while it has no group.
struct KeptTimes {
  TimeAccount account;
  TrainingProgress shown{};
  bool has_taken_part = false;  ///< in an earlier generation of this job

  /// From the start of the process, for its first run; for a later run from now on.
  KeptTimes();

  /// Ranks of the group were lost: what this rank does now is lost time, and its status page shows that.
  void lose(const Group& group);
};

/// Not thread-safe. Reads the clock once in each call that changes parts.
class RunClock {
 public:
  static constexpr std::size_t kMetricsShown = 16;

  /// `common_steps`: all ranks make each step together. `kept` outlives this.
  RunClock(KeptTimes& kept, const Group& group, bool common_steps, const std::string& work_dir);

  /// As the functions of TimeAccount.
  TimePart enter(TimePart part) { return kept_.account.enter(part, now()); }
  void begin_step(std::int64_t number);
  void go_on(std::int64_t step) { kept_.account.go_on(step, now()); }
  /// `at`: the end of the step, which the caller has read from the clock.
  void complete_step(std::chrono::steady_clock::time_point at);

  /// enter(), and the status page shows the part at once.
  TimePart turn_to(TimePart part);

  /// Once in each generation, before training. A process that takes the place of a lost rank takes over the mean of the
  /// other ranks' parts; if no process was there before, the run goes on from `earlier`, of a checkpoint. `completed`:
  /// the furthest step that this rank knows to have been completed. A collective.
  void join(const SecondsByPart& earlier, std::int64_t completed);

  /// Splits the blocked time of the steps so far into communication and waits, if all ranks make steps together. A
  /// collective.
  void split_waits();
  /// Whether split_waits() is due: no more steps can be kept. The same on all ranks.
  bool is_full() const { return kept_.account.kept().size() >= TimeAccount::kKeptSteps; }

  /// The division up to now of the time of all ranks; the same on all ranks. A collective.
  TimeDivision divide();

  /// What show() writes; this class sets `doing`, `times` and `blocked`.
  TrainingProgress& shown() { return kept_.shown; }
  /// The last value of a metric. New names are ignored when there is no room on the page.
  void set_metric(std::string_view name, std::int64_t step, double value);
  /// Writes the status page: `doing`, unless this rank repeats lost steps.
  void show(TimePart doing) noexcept;

 private:
  Moment now() const noexcept;

  KeptTimes& kept_;
  Group group_;
  bool common_steps_;
  std::chrono::nanoseconds blocked_before_;  ///< in earlier groups
};

/// `batches`, for whose batches the training waits: the time counts as `data`. `clock` outlives the result.
std::unique_ptr<samples::Batches> timed(std::unique_ptr<samples::Batches> batches, RunClock& clock);

}  // namespace lockstep::train
