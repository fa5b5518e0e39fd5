// Stray processes: those that ranks started and left running. This process becomes their reaper.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// While it exists, orphaned descendants of this process become its children instead of init's. Instances may nest.
class Subreaper {
 public:
  Subreaper();
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;
  ~Subreaper();

 private:
  int before_ = 0;
};

/// The direct children of this process, including ended ones that are not reaped yet.
std::set<pid_t> children_of_this_process();

/// The parent's pid in a line of /proc/PID/stat, where the name may contain any bytes; 0 for an invalid line.
pid_t parent_in_stat(std::string_view stat);

/// While it exists, orphaned descendants become children of this process instead of init's, so that they can be found,
/// ended and reaped. Only direct children that are not reaped get signals: their pids cannot have been reused.
class StrayProcesses {
 public:
  /// Ignores the children that exist now.
  StrayProcesses();

  /// Ignores a child that other code reaps.
  void except(pid_t pid) { known_.insert(pid); }

  /// Reaps strays that have ended, sends `signal` once to each other stray, and returns those. Call it until there are
  /// none: a process becomes visible here only when its parent has ended.
  std::vector<pid_t> sweep(int signal);

  /// Reaps ended strays, without signals.
  void reap();

 private:
  std::vector<pid_t> running();

  Subreaper subreaper_;
  std::set<pid_t> known_;
  std::map<pid_t, int> told_;
};

}  // namespace lockstep::cluster
