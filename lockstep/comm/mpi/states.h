// Receives of MPI, and the datatypes of what moves.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/progress.h>
#include <lockstep/comm/mpi/runtime.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace lockstep::detail::mpi {

/// A run of bytes as "count times type", also above the 2^31 - 1 that MPI can count to: then it is one element of a
/// type of its own.
class RequestBlock {
 public:
  explicit RequestBlock(std::int64_t bytes);
  ~RequestBlock();
  RequestBlock(const RequestBlock&) = delete;
  RequestBlock& operator=(const RequestBlock&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

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
