// The block of SIGPIPE: Gloo writes to sockets without MSG_NOSIGNAL, so a lost peer would end this process.
#pragma once

#include <csignal>
#include <ctime>

namespace lockstep::detail::gloo {

/// While it exists, SIGPIPE does not reach this thread, nor the threads that it starts; the process's own handler is
/// unchanged.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    // A signal that arrived meanwhile would be delivered when it is unblocked.
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace lockstep::detail::gloo
