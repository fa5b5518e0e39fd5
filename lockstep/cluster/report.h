// The ends of a job's ranks, and the outcome and report that follow from them. Pure.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/status_page.h>
#include <lockstep/cluster/failure.h>

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// The end of one rank.
struct RankEnd {
  int rank = 0;
  pid_t pid = 0;
  std::string host;  ///< the name of its machine; empty: not known
  ExitStatus status;
  std::chrono::system_clock::time_point when;  ///< when the launcher detected the end
  std::chrono::milliseconds after{0};          ///< since the job's start
  int asked = 0;                               ///< the last signal that the launcher had sent it by then; 0: none
  std::string cause;                           ///< the kernel's reason for the signal that ended it; empty: not known
  std::string given_up;  ///< why the job goes on without the process, which is killed; empty: it ended by itself
  bool again = false;    ///< the process that it replaced died in the same way, and this one made no more progress
  std::optional<FailureNote> note;       ///< from its error file
  std::optional<RankProgress> progress;  ///< from its status page; `since_begun` is the time until its end
  std::optional<RankCalls> calls;        ///< from its status page, until its end
  std::vector<std::string> last_lines;   ///< the last lines of its stderr
};

/// Whether the end is a mistake of the user, which a restart does not correct: it has `lockstep`'s exit code for those,
/// 2, and an error file that confirms it. The code alone has other meanings in other programs.
bool is_users_mistake(const RankEnd& end);

/// An end that follows from the program's own behaviour: it crashed, or the kernel killed it for lack of memory.
/// Another start repeats it if nothing changes.
struct Death {
  int rank = 0;
  int signal = 0;
  bool of_memory = false;
  std::optional<std::int64_t> step{};  ///< the last completed step
  bool operator==(const Death&) const = default;
};

/// Such an end; nullopt for others (a SIGKILL sent by a user or process, an exit code) and where the progress is not
/// known.
std::optional<Death> death_of(const RankEnd& end);

/// Whether the program has died in the same way at the same step, or before it. For lack of memory, any rank counts,
/// because the kernel may choose any of them.
bool repeats(const Death& now, const Death& before);

/// "signal 9 (SIGKILL), the kernel killed it for lack of memory".
std::string how_it_ended(const RankEnd& end);

/// The shell's code for an end: the exit code, or 128 plus the signal.
int exit_code_of(const ExitStatus& status);

/// Index of the rank that failed first; nullopt when none failed. Ranks that failed by themselves precede a rank that
/// ended only because of the launcher's signal, and ranks with a reason of their own precede one that reports a lost
/// peer; among equals, the earliest counts.
std::optional<std::size_t> first_failure(std::span<const RankEnd> ends);

/// The end of the whole job.
struct RunOutcome {
  int exit_code = 0;
  std::optional<int> first_failed;  ///< a rank
  std::string report;               ///< shown to the user, lines with their ends; empty when all ranks ended well
};

/// The code is 0 when all ranks succeeded, otherwise that of the first failing rank; after a signal of the user
/// (`interrupted_by`) it is 128 plus that signal unless a rank exited with a code of its own.
RunOutcome judge(std::span<const RankEnd> ends, std::optional<int> interrupted_by);

}  // namespace lockstep::cluster
