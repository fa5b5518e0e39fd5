// SCHED_BATCH for Gloo's threads, because its reading thread spins on locks that senders hold.
#pragma once

#include <pthread.h>
#include <sched.h>

namespace lockstep::detail::gloo {

/// While it exists, threads that this thread starts are scheduled as SCHED_BATCH (sched(7)): when they wake up they do
/// not take the core of a running thread. Otherwise Gloo's reading thread, woken by a message, would take the core of a
/// sender that still holds the connection's lock, and would spin on that lock until its time slice ends. With as many
/// computing threads as cores, this can take most of their time. Where a core is free nothing changes.
class BatchThreads {
 public:
  BatchThreads() {
    if (pthread_getschedparam(pthread_self(), &policy_, &parameters_) != 0 || policy_ != SCHED_OTHER) return;
    const sched_param none{};
    changed_ = pthread_setschedparam(pthread_self(), SCHED_BATCH, &none) == 0;
  }
  ~BatchThreads() {
    if (changed_) pthread_setschedparam(pthread_self(), policy_, &parameters_);
  }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  int policy_ = SCHED_OTHER;
  sched_param parameters_{};
  bool changed_ = false;
};

}  // namespace lockstep::detail::gloo
