// A pidfd of a helper process, and its exit status read without reaping it.
#include <lockstep/cluster/processes/helper.h>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace lockstep::cluster {

Helper watch_helper(std::string name, std::string without, pid_t pid) {
  Helper helper{std::move(name), std::move(without), pid};
  helper.end.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return helper;
}

std::optional<ExitStatus> end_of(const UniqueFd& process) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(process.get());
  if (::waitid(P_PIDFD, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return std::nullopt;
  return info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0} : ExitStatus{0, info.si_status};
}

}  // namespace lockstep::cluster
