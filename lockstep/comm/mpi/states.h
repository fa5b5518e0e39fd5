// The work states of MPI's operations.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/progress.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep::detail::mpi {

/// The state of a collective or a send.
Backend::Pending pending(std::shared_ptr<Requests> requests, std::function<void()> look_around);

/// Receives of one group. The n-th message sent with a tag is taken by the n-th receive, whatever the order of the
/// waits.
class Inbox {
 public:
  /// `bytes` is the whole tensor; a message of another length is Error(mismatch).
  Backend::Pending receive(MPI_Comm comm, const at::Tensor& bytes, int source, int tag,
                           std::function<void()> look_around);

 private:
  class Receive;
  std::map<std::pair<int, int>, std::shared_ptr<Receive>> last_;  ///< by source and tag
};

}  // namespace lockstep::detail::mpi
