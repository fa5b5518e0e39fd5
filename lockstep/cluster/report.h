// What became of the ranks of a job, and what is said about it. Pure.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/status_page.h>
#include <lockstep/cluster/error_file.h>

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// The end of one rank.
struct RankEnd {
  int rank = 0;
  pid_t pid = 0;
  std::string host;  ///< the name of the machine it ran on; empty: not known
  ExitStatus status;
  std::chrono::system_clock::time_point when;  ///< the launcher saw it
  std::chrono::milliseconds after{0};          ///< since the job's start
  int asked = 0;                               ///< the last signal the launcher had sent it by then; 0: none
  std::optional<FailureNote> note;             ///< from its error file
  std::optional<RankProgress> progress;        ///< from its status page; `since_begun` counts to its end
  std::vector<std::string> last_lines;         ///< of its stderr
};

/// A mistake of the user that a restart does not cure: the exit code of `lockstep` for those, 2, and an error file that
/// says so. The code alone means other things in other programs.
bool is_users_mistake(const RankEnd& end);

/// The shell's number for an end: the exit code, or 128 plus the signal.
int exit_code_of(const ExitStatus& status);

/// Index of the rank whose failure started it all; nullopt when none failed. A rank that only ended because the
/// launcher told it to comes after those that failed by themselves, and one that says it lost a peer after those with a
/// reason of their own; then the earliest counts.
std::optional<std::size_t> first_failure(std::span<const RankEnd> ends);

/// How the whole job ended.
struct Outcome {
  int exit_code = 0;
  std::optional<int> first_failed;  ///< a rank
  std::string report;               ///< for people, lines with their ends; empty when all is well
};

/// The code is 0 when all ranks are ok, the first failing rank's otherwise; after a signal of the user
/// (`interrupted_by`) it is 128 plus that signal unless a rank exited with a code of its own.
Outcome judge(std::span<const RankEnd> ends, std::optional<int> interrupted_by);

}  // namespace lockstep::cluster
