// The MPI library of this process: start, finalization, checks of return codes, and the communicator of a group.
//
// MPI's C interface, without the C++ interface that some headers still add and that would need another library.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <lockstep/comm/backend.h>

#include <string_view>

namespace lockstep::detail::mpi {

/// Starts MPI if needed. If Lockstep started MPI, it also finalizes it when the process exits, unless a group failed:
/// finalization waits for the other ranks, which may be lost. MPI must then end the job by itself, as mpirun does.
///
/// Requests MPI_THREAD_MULTIPLE, so that any thread may wait for works. With an MPI that provides less, or that the
/// program started with less, only one thread at a time may call it.
void start();

/// Records that a group failed, so that MPI is not finalized.
void never_finalize();

/// Whether MPI can be called: it is started and not finalized.
bool running() noexcept;

/// Error(peer_lost) with MPI's own message unless `code` is MPI_SUCCESS; `what` is the name of the function.
void check(int code, std::string_view what);

/// The communicator of a group.
class Communicator {
 public:
  /// Created through the store, because the group's ranks may have other numbers in MPI. Error(unsupported) when the
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
