// The replacement of lost ranks in place: which ends are mishaps, and which processes take the places of others.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/processes/local_rank.h>
#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/report.h>

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cluster {

/// The launcher's end of the pipe of events.
class ServiceEvents {
 public:
  /// `pipe`: the reading end; empty: nothing ever happens.
  explicit ServiceEvents(UniqueFd pipe = {});

  /// To be polled for input; -1 without a pipe, and once it was closed.
  int fd() const { return pipe_.get(); }

  /// Reads what has come. Never blocks. True when there was something new.
  bool read_some();

  /// The lines so far, and the same of another node, which may have more.
  const std::string& log() const { return log_; }
  void take_log(const std::string& log);

  /// Processes without which the job goes on: silent ones, and those that hang. Hosts may have equal process numbers.
  bool is_lost(int rank, pid_t process) const { return lost_.contains({rank, process}); }
  /// The number of jobs that ended well.
  int completed() const { return completed_; }

 private:
  void take(const std::string& line);

  UniqueFd pipe_;
  std::string unread_;
  std::set<std::pair<int, pid_t>> lost_;
  int completed_ = 0;
  std::string log_;
};

/// How lost ranks are replaced in place.
struct Replacing {
  ServiceEvents events{};                                 ///< of the job's service, where this launcher has it
  std::function<void(const std::string& log)> publish{};  ///< tells other nodes of events; then, where it has it
  std::function<std::string()> published{};               ///< the log of the events elsewhere. Does not block
  std::function<bool()> allowed;  ///< takes one of the job's replacements; false when none is left. Empty: never
  /// Forks the process of a rank; nullopt, or empty: it is started by itself.
  std::function<std::optional<ForkedRanks>(const ChildOptions&)> fork;
};

/// What a launcher knows of replacements on its node. For its thread alone.
class Replacements {
 public:
  using Clock = std::chrono::steady_clock;

  /// `options` and `job` outlive this.
  Replacements(const LaunchOptions& options, const Launch& job, Replacing how);

  /// To be polled for input; -1: nothing will come.
  int events_fd() const { return how_.events.fd(); }
  void read_events();
  /// Looks for events of a service on another node, every second. Never blocks.
  void look(Clock::time_point now);
  /// When `look` has something to do, or is_to_be_killed may become true.
  std::optional<Clock::time_point> next_look() const;

  /// Whether a rank that has ended was in a session with the job service, and a mishap ended it: not an exit code, nor
  /// a signal by which people and batch systems end programs. Those are the program's or somebody's decision.
  bool is_mishap(const LocalRank& rank);

  /// Takes one of the job's replacements; false when none is left.
  bool take_one() { return how_.allowed && how_.allowed(); }

  struct Started {
    ForkedRanks ranks{};  ///< one; without a gate, it runs already
    Launch job{};         ///< with a folder of its own
    int local_rank = 0;
  };
  /// Starts a process in the place of a rank. Error(io) when that fails.
  Started start(const LocalRank& lost);
  void note_started(const LocalRank& replacement);
  int count() const { return count_; }

  /// Of a rank's present process: one of error_file_of, status_file_of, session_file_of.
  std::filesystem::path file_of(const LocalRank& rank, std::filesystem::path (*which)(const Launch&, int)) const;

  /// The end of a rank (`start`: of the job), with what it left in its files.
  RankEnd end_of(const LocalRank& rank, Clock::time_point start) const;

  /// Whether a rank that has ended died as another process of it did before, and came no further; remembers its end.
  bool repeats_a_death(const RankEnd& end);

  /// The job goes on without it, and it has had time to say where it hangs.
  bool is_to_be_killed(const LocalRank& rank, Clock::time_point now);

  /// Whether it is a replacement that came for a job which ended well without it.
  bool came_too_late(const LocalRank& rank) const;
  /// Its end counts as a good one.
  void excuse(const LocalRank& rank) { excused_.insert(rank.child().pid()); }
  bool is_excused(const LocalRank& rank) const { return excused_.contains(rank.child().pid()); }

 private:
  const LaunchOptions& options_;
  const Launch& job_;
  Replacing how_;
  int count_ = 0;
  Clock::time_point looked_{};
  std::map<int, std::filesystem::path> folders_;  ///< of replacements, by local rank
  std::map<pid_t, Clock::time_point> lost_since_;
  std::map<pid_t, int> completed_before_;  ///< of replacements: jobs that had ended well when they began
  std::set<pid_t> excused_;
  std::vector<Death> deaths_;
  std::set<pid_t> repeated_;
};

}  // namespace lockstep::cluster
