// How the ranks of a node ended, on their way through the store, and what is said about all of them together.
#pragma once

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
  std::chrono::milliseconds ahead{0};  ///< of the coordinator's clock, and what it took to hear from it
};

/// Since the epoch.
std::int64_t wall_clock_milliseconds();

std::string to_text(const NodeEnds& node);

/// Error(data) when the text is no such thing.
NodeEnds parse_ends(std::string_view text);

/// It failed, and not because the launcher had told it to end. SIGUSR1 is only a word to it.
bool failed_by_itself(const RankEnd& end);

/// The signal to this launcher that these ranks ended early for, if that is what they say: SIGUSR1, as no other is
/// passed on without ending the job.
std::optional<int> word_obeyed(std::span<const RankEnd> ends);

/// One of them says that it ended early, and in good order.
bool any_ended_early(std::span<const RankEnd> ends);

/// Goes after "restarts were used": why the others were not; empty where that is no matter of the ranks.
std::string why_no_restart(std::span<const NodeEnds> nodes);

/// The ends of one round on all nodes, and what follows from them. Clocks that differ by more than a second are put
/// right first: which rank failed first is told by its time. Code 0 and no report when no rank failed by itself:
/// those that were told to end may be all that there is.
Outcome judge_all(std::span<const NodeEnds> nodes);

}  // namespace lockstep::cluster::elastic
