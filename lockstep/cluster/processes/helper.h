// Helper processes of the launcher, beside its ranks: the launcher detects their ends like those of ranks. The keeper
// of a rank's process group kills the group when the launcher ends for any reason.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/unique_fd.h>

#include <sys/types.h>

#include <optional>
#include <string>

namespace lockstep::cluster {

struct Helper {
  std::string name;     ///< its name in `ps`
  std::string without;  ///< the effect of its end on the job, shown to the user
  pid_t pid = -1;
  UniqueFd end{};  ///< a pidfd: readable (poll) once the process has ended; closed where the kernel provides none
};

/// `pid`: a child of this process, or of one that does not reap it, so that its number cannot be reused.
Helper watch_helper(std::string name, std::string without, pid_t pid);

/// The exit status of the process behind a pidfd, without reaping it; nullopt where it is no child of this one, or
/// runs.
std::optional<ExitStatus> end_of(const UniqueFd& process);

/// A pipe whose writing end is held only by the launcher: it closes when the launcher has ended.
class Lifeline {
 public:
  Lifeline() : pipe_(make_pipe()) {}
  int watched_end() const noexcept { return pipe_.read_end.get(); }

 private:
  Pipe pipe_;
};

/// A tiny process inside a rank's process group that waits for the end of the lifeline and then kills its own group. A
/// rank itself dies with its parent (PDEATHSIG), but its children (a script's commands, data loaders) would not. The
/// keeper uses no pid, so it cannot signal another process by mistake. The destructor ends it.
class GroupKeeper {
 public:
  /// Joins `group`, led by a child of this process that has not been reaped. Error(io) when that is not possible.
  GroupKeeper(pid_t group, const Lifeline& lifeline);
  GroupKeeper(GroupKeeper&& other) noexcept;
  GroupKeeper& operator=(GroupKeeper&&) = delete;
  GroupKeeper(const GroupKeeper&) = delete;
  GroupKeeper& operator=(const GroupKeeper&) = delete;
  ~GroupKeeper();

  pid_t pid() const noexcept { return pid_; }

  /// Readable (poll) once it has ended; -1 where the kernel gives no pidfd.
  int end_fd() const noexcept { return pidfd_.get(); }

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

}  // namespace lockstep::cluster
