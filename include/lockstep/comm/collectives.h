// Collectives as free functions over tensors, and the handle of an asynchronous one.
#pragma once

#include <lockstep/comm/group.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

namespace detail {
class WorkState;
}

// The handle of an asynchronous collective.

/// Copies share the same operation. Tensors given to the operation are kept alive by it and must not be read or
/// written until `wait()` returned. Thread-safe.
///
/// On CUDA an operation is work on a stream of the group. It begins when the stream that was current at its call has
/// completed all earlier work. `wait()` makes the current stream wait for it and returns at once: later work on that
/// stream uses the result. The group's time limit counts on the device. An operation that fails there ends the group,
/// so that the next call throws; the tensors of that operation then hold undefined numbers.
class Work {
 public:
  Work() = default;  ///< an operation that is complete already
  explicit Work(std::shared_ptr<detail::WorkState> state);

  /// Blocks until the operation is complete; throws its Error if it failed, or Error(timeout) naming group, op,
  /// sequence number and the time waited when neither happened within `timeout` (default: the group's).
  void wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  /// `wait()`, and on CUDA blocks until the current stream has completed the operation. Throws as `wait()`.
  void synchronize(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  /// True once `wait` would return or throw without blocking; on CUDA, once the device has completed the operation.
  /// Advances the operations of the process that are in progress. Never throws the operation's Error.
  bool test();

 private:
  std::shared_ptr<detail::WorkState> state_;
};

// Collectives as free functions over tensors.
//
// Semantics follow MPI and torch.distributed. Tensors are dense, on the CPU or the group's device, of any strides
// (non-contiguous ones are copied in and out), of any size including zero. Every floating and integer dtype and bool is
// supported; float16 and bfloat16 are accumulated in float32; for bool, sum and max are "any", product and min are
// "all". Complex dtypes support sum and mean only. All ranks pass the same dtype and, unless documented otherwise, the
// same shape; a mismatch is Error(mismatch) on every rank. In a group of one rank, collectives at most copy.
//
// Gradients: all_reduce and reduce_scatter with sum or mean, all_gather and all_to_all differentiate. A tensor's
// gradient is that of the sum of all ranks' losses. (DataParallel, which averages over ranks, makes it the mean of the
// losses.) So backward is a collective, too: all ranks pass tensors that require gradients, or none does, and all run
// backward through the result. The other operators and functions, and the `_async` variants, do not differentiate: they
// reject tensors of a graph with Error(invalid_argument), except parameters that are only sent or overwritten. Under
// torch::NoGradGuard nothing is recorded or rejected.
//
// Progress: started operations advance while this process waits for any operation. All ranks start the operations of
// one group in the same order, but may wait for them, and for those of other groups of the job, in any order: a wait, a
// `test()` and a blocking call advance all operations of the process that were in progress when they began. Between
// such calls tcp, staged and nccl advance by themselves; shm, hierarchy and mpi do not.
//
// Not thread-safe: one thread at a time calls operations of one group, and all ranks call them in the same order.
// `root`, `source` and `destination` are group ranks. The `_async` variants return a Work. Errors of all functions:
// invalid_argument, mismatch, timeout, peer_lost, unsupported. Formulas and traffic: docs/architecture.md.

/// The reduction operators. `mean` is the complete sum, divided once by the number of ranks.
enum class ReduceOp { sum, mean, min, max, product };

/// The name of an operator: "sum", "mean", ...
std::string_view name(ReduceOp op);

/// In place: every rank ends with the reduction of all ranks' tensors, bit-equal on all ranks. `mean` of integers is
/// Error(invalid_argument).
void all_reduce(at::Tensor& tensor, const Group& group, ReduceOp op = ReduceOp::sum);
Work all_reduce_async(at::Tensor& tensor, const Group& group, ReduceOp op = ReduceOp::sum);

/// In place: `root` (a group rank) ends with the reduction; other ranks' tensors are unchanged.
void reduce(at::Tensor& tensor, const Group& group, int root, ReduceOp op = ReduceOp::sum);
Work reduce_async(at::Tensor& tensor, const Group& group, int root, ReduceOp op = ReduceOp::sum);

/// In place: every rank ends with root's values.
void broadcast(at::Tensor& tensor, const Group& group, int root = 0);
Work broadcast_async(at::Tensor& tensor, const Group& group, int root = 0);

/// Concatenates all ranks' tensors along dimension 0 in rank order: [n, ...] on each rank -> [size * n, ...].
at::Tensor all_gather(const at::Tensor& tensor, const Group& group);
/// The same into `output`, a contiguous tensor of size * numel elements. `tensor` may be this rank's slice of
/// `output`.
Work all_gather_async(at::Tensor& output, const at::Tensor& tensor, const Group& group);

/// Reduces all ranks' tensors [size * n, ...]; rank i gets rows [i * n, (i + 1) * n) of the result.
/// Error(invalid_argument) unless the size of dimension 0 is a multiple of the group's size.
at::Tensor reduce_scatter(const at::Tensor& tensor, const Group& group, ReduceOp op = ReduceOp::sum);
Work reduce_scatter_async(at::Tensor& output, const at::Tensor& tensor, const Group& group,
                          ReduceOp op = ReduceOp::sum);

/// Rank i's slice k along dimension 0 becomes rank k's slice i; the size of dimension 0 is a multiple of the group's
/// size.
at::Tensor all_to_all(const at::Tensor& tensor, const Group& group);
Work all_to_all_async(at::Tensor& output, const at::Tensor& tensor, const Group& group);

/// `root` gets the concatenation along dimension 0; other ranks get an undefined tensor.
at::Tensor gather(const at::Tensor& tensor, const Group& group, int root);

/// `root` passes [size * n, ...] and every rank gets its slice [n, ...]. Other ranks pass a tensor of the shape and
/// dtype of their slice as `like`; on root `like` may be undefined.
at::Tensor scatter(const at::Tensor& tensor, const Group& group, int root, const at::Tensor& like);

/// Point to point between two different group ranks; messages between a pair with one tag (0..kMaxTag) arrive in order.
/// A send may block until its receive was called. Sender and receiver are not compared, except for the number of bytes:
/// a difference fails the group. Empty tensors are not sent.
inline constexpr int kMaxTag = (1 << 20) - 1;
void send(const at::Tensor& tensor, const Group& group, int destination, int tag = 0);
Work send_async(const at::Tensor& tensor, const Group& group, int destination, int tag = 0);
void receive(at::Tensor& tensor, const Group& group, int source, int tag = 0);
Work receive_async(at::Tensor& tensor, const Group& group, int source, int tag = 0);

/// Returns once every rank has entered it.
void barrier(const Group& group);

/// A tensor whose memory the group's backend can reduce without a copy (shared memory under shm, ordinary memory
/// elsewhere). Collective: every rank calls it with the same dtype (an at::ScalarType as int) and number of elements.
at::Tensor allocate(const Group& group, std::int64_t elements, int scalar_type);

}  // namespace lockstep
