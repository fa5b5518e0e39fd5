// poll(2) with callbacks, eventfds, signals as a signalfd on the main thread, and SIGPIPE and SIGXFSZ ignored for a
// while.
#include <lockstep/base/error.h>
#include <lockstep/cluster/processes/event_loop.h>

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::cluster {
namespace {

bool on_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

/// Runs on threads that libraries started before the inbox blocked the signals (OpenBLAS starts some while it is
/// loaded). The main thread, whose id is the pid, blocks the signals, so they stay pending there for the signalfd.
void hand_to_main_thread(int signal) {
  const int error = errno;
  const pid_t process = ::getpid();
  ::syscall(SYS_tgkill, process, process, signal);
  errno = error;
}

}  // namespace

Flag::Flag() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) fail(ErrorKind::io, "launch", "cannot make an eventfd: {}", std::strerror(errno));
}

void Flag::raise() noexcept { static_cast<void>(::eventfd_write(fd_.get(), 1)); }

void Flag::lower() noexcept {
  eventfd_t ignored = 0;
  static_cast<void>(::eventfd_read(fd_.get(), &ignored));
}

void Poller::add(int fd, short events, std::function<void()> ready) {
  fds_.push_back({fd, events, 0});
  ready_.push_back(std::move(ready));
}

void Poller::wait(std::chrono::milliseconds limit) {
  const int count = ::poll(fds_.data(), fds_.size(), static_cast<int>(limit.count()));
  if (count < 0 && errno != EINTR)
    fail(ErrorKind::io, "launch", "cannot wait for the ranks: poll: {}", std::strerror(errno));
  for (std::size_t i = 0; count > 0 && i < fds_.size(); ++i) {
    if (fds_[i].revents != 0) ready_[i]();
  }
}

SignalInbox::SignalInbox(const std::vector<int>& signals) {
  if (!on_main_thread()) {
    fail(ErrorKind::invalid_argument, "launch",
         "ranks must be started from the main thread of a program, which gets its signals");
  }
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : signals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    sigaddset(&mask, signal);
    actions_before_.emplace_back(signal, before);
  }
  ::pthread_sigmask(SIG_BLOCK, &mask, &mask_before_);

  struct sigaction redirect {};
  redirect.sa_handler = hand_to_main_thread;
  redirect.sa_flags = SA_RESTART;
  sigfillset(&redirect.sa_mask);
  for (const auto& [signal, before] : actions_before_) ::sigaction(signal, &redirect, nullptr);

  fd_.reset(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) {
    const int error = errno;
    for (const auto& [signal, before] : actions_before_) ::sigaction(signal, &before, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    fail(ErrorKind::io, "launch", "cannot watch for signals: {}", std::strerror(error));
  }
}

SignalInbox::~SignalInbox() {
  for (const auto& [signal, before] : actions_before_) ::sigaction(signal, &before, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::optional<int> SignalInbox::take() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::vector<int> with_notice_signal(std::vector<int> signals) {
  if (std::find(signals.begin(), signals.end(), SIGUSR1) == signals.end()) signals.push_back(SIGUSR1);
  return signals;
}

bool is_notice_signal(int signal, const std::vector<int>& ending) {
  return signal == SIGUSR1 && std::find(ending.begin(), ending.end(), SIGUSR1) == ending.end();
}

IgnoreFailedWrites::IgnoreFailedWrites() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  ::sigaction(SIGXFSZ, &ignore, &size_before_);
}

IgnoreFailedWrites::~IgnoreFailedWrites() {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigaction(SIGXFSZ, &size_before_, nullptr);
}

}  // namespace lockstep::cluster
