// Signal handlers that store the first stop signal in a lock-free atomic, and the former actions for restoration.
#include <lockstep/train/stop_signals.h>

#include <atomic>

namespace lockstep::train {
namespace {

/// 0: none. A handler gets only the signal's number, so it must write to an object of the whole process.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");

void note(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    if (signal == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
    before_.emplace_back(signal, before);
  }
  // The console may be a closed pipe: a write then fails (Console), but does not end the process.
  struct sigaction before {};
  ::sigaction(SIGPIPE, nullptr, &before);
  if (before.sa_handler != SIG_DFL) return;
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, nullptr);
  before_.emplace_back(SIGPIPE, before);
}

StopSignals::~StopSignals() {
  for (const auto& [signal, before] : before_) ::sigaction(signal, &before, nullptr);
}

std::optional<int> StopSignals::noted() const noexcept {
  const int signal = first_signal;
  return signal == 0 ? std::nullopt : std::optional(signal);
}

void StopSignals::ignore_for_good() noexcept {
  for (auto& [signal, before] : before_) {
    if (signal != SIGINT) before.sa_handler = SIG_IGN;
  }
}

}  // namespace lockstep::train
