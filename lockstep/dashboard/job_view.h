// A job as its page shows it: ranks, curves, events and where the time went, as values with bounds; and the pure
// functions from one look at the job to the next.
#pragma once

#include <lockstep/dashboard/goodput.h>
#include <lockstep/dashboard/job_facts.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::dashboard {

inline constexpr std::size_t kMostPoints = 2000;  ///< of a curve; when it is full, every second one is dropped
inline constexpr std::size_t kMostCurves = 32;
inline constexpr std::size_t kMostEvents = 1000;
inline constexpr std::size_t kMostLines = 50;  ///< of a rank's output

struct JobDescription {
  std::string name;
  std::string program;  ///< its command line
  std::string version;  ///< of Lockstep
  std::string host;     ///< of the ranks
  double started = 0;   ///< seconds since 1970
  int hosts = 1;        ///< as the last look says, and `world`
  int world = 1;        ///< ranks of the job, those of other hosts included
  bool can_kill = false;
  bool has_output = true;  ///< the lines of ranks are known
  std::vector<std::string> notes{};
};

struct JobEnd {
  std::optional<int> exit_code{};  ///< nullopt: only the page ends, and the job goes on
  std::string text;                ///< "all ranks ended well"
  bool operator==(const JobEnd&) const = default;
};

enum class RankState { starting, running, lost, ended, failed };
constexpr bool fell(RankState state) { return state == RankState::lost || state == RankState::failed; }

/// The row of a rank in the table.
struct RankRow {
  std::string host{};  ///< empty: that of the job
  std::int64_t pid = 0;
  int generation = 1;
  RankState state = RankState::starting;
  std::optional<std::int64_t> step{};
  std::optional<double> rate{};   ///< samples per second
  std::optional<double> waits{};  ///< the share of a step spent waiting for other ranks
  std::optional<std::uint64_t> memory{};
  std::string straggler{};  ///< why the others wait for it; empty: they do not
  std::string call{};       ///< the collective in which it is; empty: none
  std::string activity{};
  bool operator==(const RankRow&) const = default;
};

/// A rank at a time at which it had completed more steps than before.
struct StepMark {
  double at = 0;  ///< seconds since the start of the job
  std::int64_t step = 0;
  std::int64_t samples = 0;
  double blocked = 0;  ///< seconds
};

struct RankView {
  RankRow row;
  std::string life{};          ///< see RankProcess
  double since = 0;            ///< when the process was first seen, in seconds since the start of the job
  bool works = false;          ///< this process has computed with the others
  bool end_told = false;       ///< there is an event for its end
  bool serves = false;         ///< it is a parameter server
  RankProgress place{};        ///< as last seen
  std::deque<StepMark> marks;  ///< the last ones in this generation
  std::vector<std::string> lines;
};

struct Event {
  std::int64_t id = 0;  ///< from 1
  double at = 0;
  std::string kind;  ///< "start", "generation", "loss", "return", "save", "evaluation", "decision", "end"
  std::optional<int> rank{};
  std::string text;
};

struct JobProgress {
  std::optional<std::int64_t> step{};
  std::optional<std::int64_t> steps{};
  std::optional<std::int64_t> epoch{};
  std::optional<double> samples_per_s{};
  std::optional<double> seconds_left{};
  std::optional<double> stands{};  ///< seconds without a new step (of jobs that report none: without a new collective),
                                   ///< where that is clearly longer than a step takes
  std::string why{};               ///< "Ranks 0, 1, 3 are in all_reduce 40; rank 2 is computing"
  bool operator==(const JobProgress&) const = default;
};

using Points = std::vector<std::pair<std::int64_t, double>>;  ///< step and value

struct JobView {
  JobDescription job;
  double now = 0;
  int round = 1;
  int generation = 0;  ///< 0: not all ranks have begun
  bool begun = false;  ///< there was a look at it
  bool has_status_pages = false;
  std::optional<JobEnd> end{};
  JobProgress progress{};
  double moved = 0;                   ///< when progress.step changed, or what `stands` is about
  std::optional<double> step_time{};  ///< seconds, of the last steps
  Goodput goodput{};
  std::map<int, RankView> ranks{};
  std::map<std::string, Points> curves{};
  std::deque<Event> events{};
  std::int64_t events_so_far = 0;
  std::optional<std::int64_t> saved_step{};
  std::optional<double> evaluated{};  ///< seconds in evaluations of the present processes so far
  bool evaluating = false;
  std::string work_dir{};   ///< the one that the ranks report; empty: none
  std::set<int> missing{};  ///< ranks that were lost and are not back yet
};

/// What a look at the job added and what it changed.
struct Changes {
  std::vector<int> rows{};
  std::map<std::string, Points> points{};
  std::int64_t events_before = 0;  ///< later ones are new
  std::vector<int> lines{};        ///< ranks with other lines than before
  bool other_ranks = false;        ///< a rank came or went: the whole view is to be sent again
};

struct NextView {
  JobView view;
  Changes changes;
};

/// The view after another look at the job.
NextView observe(JobView view, const JobFacts& facts);

/// The view of the job that has ended. `at`: seconds since its start.
NextView end_job(JobView view, JobEnd end, double at);

// Parts of observe(), in progress.cpp: the speed of ranks, from their marks of completed steps.

/// Sets `progress`, with `stands` and `why`. The rows must be those of this look.
void take_progress(JobView& view, const JobFacts& facts);

/// Sets `rate`, `waits` and `straggler` of all rows. The rule of stragglers is that of the job service
/// (membership/service/status.h), over the last seconds.
void judge_speed(JobView& view);

}  // namespace lockstep::dashboard
