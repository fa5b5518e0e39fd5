// Helper processes of the launcher, beside its ranks: the launcher detects their ends like those of ranks.
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

}  // namespace lockstep::cluster
