// Where the time of a job went: the accounts of its ranks, added up to one. Values and pure functions.
#pragma once

#include <lockstep/base/status_page.h>

#include <array>
#include <map>
#include <optional>

namespace lockstep::dashboard {

/// Seconds of each TimePart.
using Parts = std::array<double, kTimeParts.size()>;

/// The account of one rank.
struct RankAccount {
  Parts process{};      ///< as its process last reported it
  double since = 0;     ///< seconds from the start of the job to the first sight of this process
  double blocked = 0;   ///< communicate and wait since the last settlement
  double reported = 0;  ///< of its process: the sum of `process`
};

/// The account of a job: means over its ranks.
struct Goodput {
  Parts settled{};
  double settled_at = 0;
  std::map<int, RankAccount> ranks;  ///< by rank
};

/// A process of a rank is seen for the first time `at` seconds after the start of the job. The time since the last
/// report of the process before it is lost.
void begin_process(Goodput& goodput, int rank, double at);

/// A rank reports its times.
void report_times(Goodput& goodput, int rank, const TrainingProgress& training);

/// To be called after the reports of an observation. In an interval of some seconds, the least time that any rank was
/// blocked in collectives is communication, because no rank of a collective can take less; the rest of the others is
/// waiting.
void settle(Goodput& goodput, double at);

/// The parts as of now; nullopt where no rank has reported any.
std::optional<Parts> parts_of(const Goodput& goodput);

/// Effective training time ratio: the share of the time in which steps are made (data, compute, communicate, wait).
double effective_ratio(const Parts& parts);

}  // namespace lockstep::dashboard
