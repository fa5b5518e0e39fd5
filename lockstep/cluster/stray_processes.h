// Processes that ranks started and left behind.
#pragma once

#include <lockstep/cluster/subreaper.h>

#include <sys/types.h>

#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// The direct children of this process, ended ones that nobody reaped included.
std::set<pid_t> children_of_this_process();

/// The parent's pid in a line of /proc/PID/stat, where the name may hold anything; 0 when the line is not one.
pid_t parent_in_stat(std::string_view stat);

/// While alive, orphans among the descendants become children of this process instead of init's, where they can be
/// found, ended and reaped. Only direct children that are not reaped are ever signalled: their numbers are still
/// theirs.
class StrayProcesses {
 public:
  /// Children that exist now are none of its business.
  StrayProcesses();

  /// A child that somebody else looks after.
  void except(pid_t pid) { known_.insert(pid); }

  /// Reaps strays that have ended, sends `signal` to each of the others that has not got it from here before, and
  /// returns those. Call it again until there are none: whose parent ends turns up then.
  std::vector<pid_t> sweep(int signal);

  /// Only reaps.
  void reap();

 private:
  std::vector<pid_t> running();

  Subreaper subreaper_;
  std::set<pid_t> known_;
  std::map<pid_t, int> told_;
};

}  // namespace lockstep::cluster
