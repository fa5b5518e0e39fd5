// The launcher's handle of one rank on this machine: its process, its group keeper and its output streams.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/stack_signal.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/output/rank_stream.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/report.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cluster {

struct Consoles {
  ConsoleSink out;
  ConsoleSink err;
};

/// The destructor kills the rank's process group. Cannot be moved: the streams hold a pointer to the tail of
/// stderr.
class LocalRank {
 public:
  LocalRank(int rank, Child child, const std::string& prefix, const RankOutlets& outlets, const Lifeline& lifeline,
            Consoles& consoles);
  LocalRank(const LocalRank&) = delete;
  LocalRank& operator=(const LocalRank&) = delete;

  int rank() const { return rank_; }
  bool running() const { return !status_; }
  const Child& child() const { return child_; }
  const GroupKeeper& keeper() const { return *keeper_; }
  RankStream& out() { return out_; }
  RankStream& err() { return err_; }

  /// Keeps the last lines of both streams, for `new_lines`.
  void keep_lines(std::size_t most);
  /// The last lines of both streams; nullopt when there are no others than at the last call.
  std::optional<std::vector<std::string>> new_lines();

  /// Whether a keeper has to run: not after the whole group got SIGKILL.
  bool needs_keeper() const { return running() && keeper_ && !killed_; }
  /// Starts a keeper in the place of one that has ended. On failure, Error(io), and there is no keeper.
  void renew_keeper(const Lifeline& lifeline);

  /// Another process has taken the place of this one.
  bool replaced() const { return replaced_; }
  /// Ends the processes that the rank has left running in its group.
  void mark_replaced();

  /// Records the end of the rank if it has ended. True when the end is detected for the first time.
  bool look_for_end();
  const ExitStatus& status() const { return *status_; }

  /// Whether a SIGKILL that this launcher did not send ended the rank, or one of its own processes.
  bool was_killed() const;
  /// Sets the reason for which the kernel killed it, for end().
  void note_cause(std::string cause) { cause_ = std::move(cause); }
  /// Sets the reason for which the job goes on without it, for end().
  void note_given_up(std::string why) { given_up_ = std::move(why); }

  /// Sends a signal to the process and its group, also when the process has ended.
  void signal(int signal);

  /// Kills it as a failure does: it does not count as signalled to end.
  void kill() {
    killed_ = true;
    child_.signal_group(SIGKILL);
  }

  /// Requests a stack trace from the process and its group (base/stack_signal.h).
  void ask_where() { child_.signal_group(kWhereAreYou); }

  /// The end of the rank. `start`: the start of the job.
  RankEnd end(std::chrono::steady_clock::time_point start) const;

 private:
  int rank_;
  LineTail tail_;
  std::unique_ptr<LineTail> lines_;  ///< of both streams; null: not wanted
  std::optional<std::uint64_t> lines_told_;
  Child child_;
  std::optional<GroupKeeper> keeper_;
  RankStream out_;
  RankStream err_;
  int asked_ = 0;
  bool replaced_ = false;
  bool killed_ = false;
  std::string given_up_;
  std::optional<ExitStatus> status_;
  std::string cause_;
  std::chrono::steady_clock::time_point ended_;
  std::chrono::system_clock::time_point ended_wall_;
};

}  // namespace lockstep::cluster
