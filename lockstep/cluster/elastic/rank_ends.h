// The ends of a node's ranks, and the outcome of a round over all nodes.
#pragma once

#include <lockstep/cluster/elastic/job_state.h>
#include <lockstep/cluster/report.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster::elastic {

struct NodeEnds {
  std::string host;                    ///< shown to the user
  std::string error;                   ///< why its ranks could not be started; empty: they were started
  std::vector<RankEnd> ends;           ///< by rank
  std::chrono::milliseconds ahead{0};  ///< this node's clock minus the service's, plus the delay of its message
};

/// Whether they were started, and none of them failed.
bool all_ended_well(const NodeEnds& node);

/// The report of these ends. `stopped`: the agent ended the ranks because the round had ended.
NodeReport report_of(const NodeEnds& node, int round, bool stopped);

/// The wall clock's time since the epoch.
std::int64_t wall_clock_milliseconds();

/// Whether a rank failed, and not because the launcher had sent it a signal to end. SIGUSR1 does not count as one.
bool failed_by_itself(const RankEnd& end);

/// The signal to this launcher because of which these ranks ended early, if their notes report that: SIGUSR1, since
/// every other signal that is passed on ends the job.
std::optional<int> obeyed_notice_signal(std::span<const RankEnd> ends);

/// Whether one of the ranks reports an orderly early end.
bool any_ended_early(std::span<const RankEnd> ends);

/// Text to follow "restarts were used": why the remaining restarts were not; empty where the ranks are not the reason.
std::string why_no_restart(std::span<const NodeEnds> nodes);

/// The end of the rank that failed first, if another start would repeat it (report.h).
std::optional<Death> death_in(std::span<const NodeEnds> nodes);

/// Whether a rank died in the same way as the process that it replaced.
bool is_repeated(std::span<const NodeEnds> nodes);

/// The outcome of one round from the ends on all nodes. Clocks that differ by more than a second are corrected first,
/// because the times decide which rank failed first. Code 0 and no report when no rank failed by itself: then each rank
/// that ended with an error may have been signalled to end.
RunOutcome judge_all(std::span<const NodeEnds> nodes);

}  // namespace lockstep::cluster::elastic
