#include <lockstep/base/parse.h>
#include <lockstep/cluster/fork_server/become_rank.h>

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace lockstep::cluster {
namespace {

/// "NAME=value", or "NAME" to unset it.
void set_variable(const std::string& entry) {
  const auto equals = entry.find('=');
  if (equals == std::string::npos) {
    ::unsetenv(entry.c_str());
  } else {
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
}

/// One byte for each rank. A gate that closes instead tells that the launcher is gone, or starts the ranks anew.
void pass(const UniqueFd& gate) {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = ::read(gate.get(), &byte, 1);
  } while (count < 0 && errno == EINTR);
  if (count != 1) ::_exit(1);
}

void die_with_launcher(pid_t launcher) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);  // it died before the line above
}

}  // namespace

void become_rank(Message request, const OwnState& own) {
  ::setpgid(0, 0);
  const auto launcher = parse_integer(request.words.at(0));
  const UniqueFd gate = std::move(request.descriptors.at(0));
  if (::dup2(request.descriptors.at(1).get(), STDOUT_FILENO) < 0) ::_exit(1);
  if (::dup2(request.descriptors.at(2).get(), STDERR_FILENO) < 0) ::_exit(1);
  for (std::size_t i = 1; i < request.words.size(); ++i) set_variable(request.words[i]);
  ::prctl(PR_SET_NAME, own.name.data());
  ::sigprocmask(SIG_SETMASK, &own.signals, nullptr);
  pass(gate);
  die_with_launcher(static_cast<pid_t>(launcher.value()));
}

}  // namespace lockstep::cluster
