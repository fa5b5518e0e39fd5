// The fork server's side, inside the program whose ranks are to be forked: the library's constructor checks whether the
// launcher requests it. At that time all libraries are loaded and initialised, which takes most of the time, and no
// code of the program itself has run. Other code calls nothing here; this file is part of the library only.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/fork_server/channel.h>
#include <lockstep/cluster/processes/forked_child.h>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace lockstep::cluster {
namespace {

/// Settings of the process that the server changed, and that a rank gets back.
struct OwnState {
  std::array<char, 16> name{};
  sigset_t signals{};
};

/// The socket in this process's environment; none when the variable is a leftover.
UniqueFd told_socket() {
  const char* const text = ::secure_getenv(kServerVariable);
  if (text == nullptr) return UniqueFd();
  const auto fd = static_cast<int>(parse_integer(text).value_or(-1));
  ::unsetenv(kServerVariable);
  ucred other{};
  socklen_t size = sizeof other;
  const bool is_launchers = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.pid == ::getppid();
  if (!is_launchers) return UniqueFd();
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

/// Saves the settings that ranks get back.
OwnState take_own_state() {
  OwnState own;
  ::prctl(PR_GET_NAME, own.name.data());
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &own.signals);  // these signals are meant for the ranks, not for their server
  ::prctl(PR_SET_NAME, "lockstep-forks");
  return own;
}

void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
}

/// Why this process cannot fork the ranks; empty when it can.
std::string obstacle(const Message& hello) {
  if (const auto others = other_threads(); !others.empty()) {
    return fmt::format("loading it starts threads ({})", fmt::join(others, ", "));
  }
  // Connections and positions in files would be shared by all ranks.
  const auto open = count_descriptors().open - 1;  // the socket
  if (open != parse_integer(hello.words.at(0))) return "loading it opens files, devices or connections";
  return "";
}

void answer_hello(int socket, const Message& hello) {
  const std::string why = obstacle(hello);
  send_message(socket, why.empty() ? kReady : kFailure, {why});
}

/// "NAME=value", or "NAME" to unset it.
void set_variable(const std::string& entry) {
  const auto equals = entry.find('=');
  if (equals == std::string::npos) {
    ::unsetenv(entry.c_str());
  } else {
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
}

/// Waits for one byte for each rank. The gate closes instead when the launcher has ended, or starts the ranks anew.
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

/// Turns a fork of the server into a rank like one started by itself: takes the group, streams, environment and name of
/// the rank that `request` describes, and waits for the launcher's release. Returns when the launcher is this process's
/// parent and has released it; ends the process otherwise.
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

/// The process that forks the ranks. It ends right after that, and the ranks become children of the launcher, which
/// adopts the orphans among its descendants. Returns in each rank.
void fork_ranks(UniqueFd& socket, const OwnState& own) {
  while (auto request = receive_message(socket.get())) {
    if (request->kind != kRank) ::_exit(request->kind == kEndForks ? 0 : 1);
    const pid_t pid = ::fork();
    if (pid == 0) {
      socket.reset();
      become_rank(std::move(*request), own);
      return;
    }
    if (pid < 0) {
      send_message(socket.get(), kFailure, {std::strerror(errno)});
    } else {
      ::setpgid(pid, pid);  // both processes call it, so that it is done whichever runs first
      send_message(socket.get(), kPid, {std::to_string(pid)});
    }
  }
  ::_exit(1);
}

/// Forks ranks on request. True in a rank.
bool forked_a_rank(UniqueFd& socket, const OwnState& own) {
  const pid_t server = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    die_with(server);
    fork_ranks(socket, own);
    return true;
  }
  int status = -1;
  while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool well = pid > 0 && status == 0;
  send_message(socket.get(), well ? kReady : kFailure, {well ? "" : "the process that forks them ended early"});
  return false;
}

/// Serves the launcher's requests. Returns in ranks only.
void serve(UniqueFd socket) {
  const OwnState own = take_own_state();
  while (auto request = receive_message(socket.get())) {
    if (request->kind == kHello) {
      answer_hello(socket.get(), *request);
    } else if (request->kind != kBeginForks) {
      send_message(socket.get(), kFailure, {"unexpected message: " + request->kind});
    } else if (forked_a_rank(socket, own)) {
      return;
    }
  }
  ::_exit(0);  // the launcher has ended, or needs no more ranks
}

[[gnu::constructor]] void serve_if_asked() {
  auto socket = told_socket();
  if (!socket) return;
  try {
    serve(std::move(socket));
  } catch (...) {
    ::_exit(127);  // no report is possible: the launcher detects the end of the socket
  }
}

}  // namespace
}  // namespace lockstep::cluster
