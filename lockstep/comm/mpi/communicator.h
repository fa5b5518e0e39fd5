// The MPI communicator of a group.
#pragma once

#include <lockstep/comm/backend_context.h>
#include <lockstep/comm/mpi/runtime.h>

namespace lockstep::detail::mpi {

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
