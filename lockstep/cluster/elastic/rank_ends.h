// The ends of a node's ranks as JSON for the store, and the outcome of a round over all nodes.
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
  std::string host;                    ///< for people
  std::string error;                   ///< why its ranks could not be started; empty: they were
  std::vector<RankEnd> ends;           ///< by rank
  std::chrono::milliseconds ahead{0};  ///< of the coordinator's clock, plus the delay of its message
};

/// Whether they were started, and none of them failed.
bool all_ended_well(const NodeEnds& node);

/// What their agent reports of them; `stopped`: it had ended them because the round was over.
NodeReport report_of(const NodeEnds& node, int round, bool stopped);

/// The wall clock's time since the epoch.
std::int64_t wall_clock_milliseconds();

std::string to_text(const NodeEnds& node);

/// Error(data) when the text is not the JSON of such a value.
NodeEnds parse_ends(std::string_view text);

/// Whether a rank failed, and not because the launcher had told it to end. SIGUSR1 does not count as telling it to end.
bool failed_by_itself(const RankEnd& end);

/// The signal to this launcher because of which these ranks ended early, if their notes say so: SIGUSR1, since no
/// other one is passed on without ending the job.
std::optional<int> obeyed_notice_signal(std::span<const RankEnd> ends);

/// Whether one of the ranks reports that it ended early and in good order.
bool any_ended_early(std::span<const RankEnd> ends);

/// Text to follow "restarts were used": why the others were not; empty where the ranks are not the reason.
std::string why_no_restart(std::span<const NodeEnds> nodes);

/// The end of the rank that failed first, where it is one that another start repeats (report.h).
std::optional<Death> death_in(std::span<const NodeEnds> nodes);

/// Whether a rank died as the process whose place it had taken.
bool is_repeated(std::span<const NodeEnds> nodes);

/// The outcome of one round from the ends on all nodes. Clocks that differ by more than a second are corrected first,
/// because the times decide which rank failed first. Code 0 and no report when no rank failed by itself: then all
/// ranks that ended with an error may have been told to end.
RunOutcome judge_all(std::span<const NodeEnds> nodes);

}  // namespace lockstep::cluster::elastic
