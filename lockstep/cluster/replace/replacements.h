// The replacement of lost ranks in place: which ends are failures, and which processes take the places of lost ones.
#pragma once

#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/processes/local_rank.h>
#include <lockstep/cluster/rank_services.h>
#include <lockstep/cluster/rank_start.h>
#include <lockstep/cluster/report.h>

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cluster {

/// The means by which lost ranks are replaced in place.
struct Replacing {
  std::shared_ptr<SharedLosses> losses{};  ///< those of the job's service, where this launcher hosts it
  /// Publishes them for other nodes.
  std::function<void(const RankLosses&)> publish{};
  std::function<RankLosses()> published{};  ///< those of a service on another node; does not block
  /// Takes one of the job's replacements; false when none is left. Empty: none is allowed.
  std::function<bool()> allowed;
  /// Forks the process of a rank; nullopt, or empty: the rank is started by itself.
  std::function<std::optional<ForkedRanks>(const ChildOptions&)> fork;
};

/// The state of replacements on a launcher's node. For use by its thread alone.
class Replacements {
 public:
  using Clock = std::chrono::steady_clock;

  /// `options` and `job` must outlive this object.
  Replacements(const LaunchOptions& options, const Launch& job, Replacing how);

  /// The descriptor to poll for input; -1: there is no service here.
  int losses_fd() const { return how_.losses ? how_.losses->fd() : -1; }
  void read_losses();
  /// Reads what a service on another node has published, once a second. Never blocks.
  void look(Clock::time_point now);
  /// The time at which `look` has something to do, or is_to_be_killed may become true.
  std::optional<Clock::time_point> next_look() const;

  /// Whether a rank that has ended was in a session with the job service, and failed: not by an exit code, nor by a
  /// signal with which users and batch systems end programs. Those are decisions of the program or of the sender.
  bool is_mishap(const LocalRank& rank);
  /// Whether the service has given up its process, because it hangs or is silent.
  bool gave_up(const LocalRank& rank) const;

  /// Takes one of the job's replacements; false when none is left.
  bool take_one() { return how_.allowed && how_.allowed(); }

  struct Started {
    ForkedRanks ranks{};  ///< one rank; without a gate, it runs already
    Launch job{};         ///< with a folder of its own
    int local_rank = 0;
  };
  /// Starts a process in the place of a rank. Error(io) when that fails.
  Started start(const LocalRank& lost);
  void note_started(const LocalRank& replacement);
  int count() const { return count_; }

  /// The file of a rank's present process: `which` is error_file_of, status_file_of or session_file_of.
  std::filesystem::path file_of(const LocalRank& rank, std::filesystem::path (*which)(const Launch&, int)) const;

  /// The end of a rank, with the contents of its files. `start`: the start of the job.
  RankEnd end_of(const LocalRank& rank, Clock::time_point start) const;

  /// Whether a rank that has ended died as one of its earlier processes did, without more progress; records its end.
  bool repeats_a_death(const RankEnd& end);

  /// Whether the job continues without this rank, and its time to report its stack has passed.
  bool is_to_be_killed(const LocalRank& rank, Clock::time_point now);

  /// Whether it is a replacement that started for a job which ended well without it.
  bool came_too_late(const LocalRank& rank) const;
  /// Counts its end as a success.
  void excuse(const LocalRank& rank) { excused_.insert(rank.child().pid()); }
  bool is_excused(const LocalRank& rank) const { return excused_.contains(rank.child().pid()); }

 private:
  const LaunchOptions& options_;
  const Launch& job_;
  Replacing how_;
  RankLosses losses_;
  int count_ = 0;
  Clock::time_point looked_{};
  std::map<int, std::filesystem::path> folders_;  ///< the folders of replacements, by local rank
  std::map<pid_t, Clock::time_point> lost_since_;
  std::map<pid_t, int> completed_before_;  ///< for replacements: jobs that had ended well when they began
  std::set<pid_t> excused_;
  std::vector<Death> deaths_;
  std::set<pid_t> repeated_;
};

}  // namespace lockstep::cluster
