// Where a thread of this process is, without a debugger.
#pragma once

#include <pthread.h>

#include <chrono>
#include <string>

namespace lockstep::scheduler {

/// The functions that `thread` is in, innermost first, a line each; or why that is not known: it did not answer within
/// `patience`, as a thread that is stopped in the kernel does not. Interrupts it with kWhereAreYou
/// (base/stack_signal.h), whose action is as before afterwards, but where the thread did not answer and may yet. One
/// call at a time; not for the calling thread.
std::string stack_of_thread(pthread_t thread, std::chrono::milliseconds patience);

}  // namespace lockstep::scheduler
