// Where the time of a job went: the accounts of its ranks, added up to one. Values and pure functions.
#pragma once

#include <lockstep/base/status_page.h>

#include <array>
#include <map>
#include <optional>

namespace lockstep::dashboard {

/// Seconds of each TimePart.
using Parts = std::array<double, kTimeParts.size()>;

/// The account of one rank, over all processes that had its place. `parts` never exceed the time since the start of
/// the job; the time that they do not cover belongs to `present`.
struct RankAccount {
  Parts parts{};
  Parts process{};  ///< as its process last reported them
  TimePart present = TimePart::start;
  std::optional<double> seen{};  ///< when its process was first seen, as long as that has reported no times
  bool replaces = false;         ///< its process has the place of an earlier one
  bool reports = false;          ///< a process of this rank has reported times
};

/// The account of a job.
struct Goodput {
  std::map<int, RankAccount> ranks;  ///< by rank
};

/// A process of a rank is seen for the first time `at` seconds after the start of the job. Where it has the place of an
/// earlier one, the time that that one has not reported is lost, and so is its own start. A rank that joins ranks which
/// have reported times begins with their mean.
void begin_process(Goodput& goodput, int rank, double at);

/// A rank reports the times of its process. Of a process that is older than the job (the page began later), only later
/// reports count.
void report_times(Goodput& goodput, int rank, const TrainingProgress& training, double at);

/// To what the time since the last report belongs: until it is reported, or for good if its process never does.
void set_present(Goodput& goodput, int rank, TimePart part);

/// The parts `at` seconds after the start of the job, which add up to that time: means over the ranks that report
/// times; nullopt where none does.
std::optional<Parts> parts_of(const Goodput& goodput, double at);

/// Effective training time ratio: the share of kPartsOfSteps.
double effective_ratio(const Parts& parts);

}  // namespace lockstep::dashboard
