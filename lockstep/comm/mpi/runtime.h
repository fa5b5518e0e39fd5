// The MPI library of this process: starting, finalizing, checking return codes, and the communicator of a group.
//
// MPI's C interface, without the C++ one that some headers still add, and that would need another library.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <lockstep/comm/backend.h>

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

/// The communicator of a group.
class Communicator {
 public:
  /// Made through the store: the group's ranks may be numbered otherwise than MPI's. Error(unsupported) when the
  /// processes are not one MPI job.
  explicit Communicator(const BackendContext& context);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm get() const { return comm_; }

  /// The largest tag of messages.
  int tag_limit() const { return tag_limit_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int tag_limit_ = 0;
};

}  // namespace lockstep::detail::mpi
