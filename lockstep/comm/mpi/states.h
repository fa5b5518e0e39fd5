// Receives of MPI, and the datatypes of the data.
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

/// A block of bytes as "count times type". For more than the 2^31 - 1 that MPI can count, it is one element of a
/// separate type.
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

/// Receives of one group. The n-th receive takes the n-th message that was sent with its tag, whatever the order of the
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
