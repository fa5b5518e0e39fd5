// Operations of MPI that are under way.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/progress.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep::detail::mpi {

/// A collective or a send.
Backend::Pending pending(std::shared_ptr<Requests> requests, std::function<void()> look_around);

/// Receives of one group. The message that was sent n-th with a tag is taken by the n-th receive, in whichever order
/// they are waited for.
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
