// What a backend implements. Internal: users see group.h and collectives.h.
//
// The front (collectives.cpp) has validated and compared the arguments, dealt with size-1 groups, empty tensors and
// strides; a backend sees contiguous, non-empty tensors whose sizes agree on all ranks.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/work.h>

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// One collective in words, for fingerprints and messages.
struct Call {
  std::string_view op;          ///< "all_reduce"
  std::uint64_t sequence = 0;   ///< counts the group's collectives from 1
};

/// State behind a Work. Implementations: done already, a c10d work, an MPI request, a shared-memory operation.
class WorkState {
 public:
  virtual ~WorkState() = default;
  /// Blocks; throws the operation's Error, or Error(timeout) after `timeout`.
  virtual void wait(std::chrono::milliseconds timeout) = 0;
  virtual bool test() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  using Pending = std::shared_ptr<WorkState>;

  virtual Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call) = 0;
  virtual Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call) = 0;
  virtual Pending broadcast(at::Tensor& tensor, int root, const Call& call) = 0;
  virtual Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call& call) = 0;
  virtual Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call) = 0;
  virtual Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call& call) = 0;
  virtual Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call& call) = 0;
  virtual Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call& call) = 0;
  virtual Pending send(const at::Tensor& tensor, int destination, int tag, const Call& call) = 0;
  virtual Pending receive(at::Tensor& tensor, int source, int tag, const Call& call) = 0;
  virtual Pending barrier(const Call& call) = 0;

  /// Compares `fingerprint` (the same length on every rank) and returns all ranks' in rank order. Used to turn a
  /// mismatch into an error; must itself be safe against ranks that are in different collectives.
  virtual std::vector<std::string> exchange(const std::string& fingerprint, const Call& call) = 0;

  /// Memory for `allocate`; default: ordinary memory.
  virtual at::Tensor allocate(std::int64_t elements, at::ScalarType dtype);
};

}  // namespace lockstep::detail
