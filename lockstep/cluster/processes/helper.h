// Helper processes of the launcher, beside its ranks: their ends are seen as those of ranks are.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/unique_fd.h>

#include <sys/types.h>

#include <optional>
#include <string>

namespace lockstep::cluster {

struct Helper {
  std::string name;     ///< as `ps` shows it
  std::string without;  ///< what it means that it is gone, for people
  pid_t pid = -1;
  UniqueFd end{};  ///< a pidfd: readable (poll) once the process has ended; closed where the kernel gives none
};

/// `pid`: a child of this process, or of one that does not wait for it, so that its number cannot be another's.
Helper watch_helper(std::string name, std::string without, pid_t pid);

/// How the process behind a pidfd ended, without reaping it; nullopt where it is no child of this one, or runs.
std::optional<ExitStatus> end_of(const UniqueFd& process);

}  // namespace lockstep::cluster
