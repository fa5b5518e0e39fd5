// The MPI library of this process: starting, finalizing, and checking return codes.
#pragma once

#include <lockstep/comm/mpi/api.h>

#include <string_view>

namespace lockstep::detail::mpi {

/// Starts MPI if needed. If Lockstep started MPI, it also finalizes it when the process exits, unless a group failed:
/// finalizing waits for the other ranks, which may be gone. MPI must then end the job by itself, as mpirun does.
///
/// Asks for MPI_THREAD_MULTIPLE, so that works may be waited for on any thread. An MPI that gives less, or that the
/// program started with less, must be called from one thread at a time.
void start();

/// A group failed: do not finalize.
void never_finalize();

/// Whether MPI can be called: started and not finalized.
bool running() noexcept;

/// Error(peer_lost) with MPI's own words unless `code` is MPI_SUCCESS; `what` is the function called.
void check(int code, std::string_view what);

}  // namespace lockstep::detail::mpi
