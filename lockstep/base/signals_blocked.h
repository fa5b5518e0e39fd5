// Blocked signals, for the start of a thread or process that must not handle those of the program.
#pragma once

#include <pthread.h>

#include <csignal>

namespace lockstep {

/// Blocks all signals; threads and processes that are started meanwhile inherit the block, until they unblock the
/// signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace lockstep
