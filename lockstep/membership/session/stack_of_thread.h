// The stack trace of a thread of this process, without a debugger.
#pragma once

#include <pthread.h>

#include <chrono>
#include <string>

namespace lockstep::membership {

/// The functions on the stack of `thread`, innermost first, one per line; or the reason why they are not known: it did
/// not answer within `limits`, for example because it is blocked in the kernel. Interrupts it with kWhereAreYou
/// (base/stack_signal.h), whose action is restored afterwards, unless the thread did not answer and may still do so.
/// One call at a time; not for the calling thread.
std::string stack_of_thread(pthread_t thread, std::chrono::milliseconds limits);

}  // namespace lockstep::membership
