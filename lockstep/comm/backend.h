// The interface that each backend implements. Internal: users include group.h and collectives.h.
//
// The front (collectives.cpp) has checked this rank's arguments and has handled groups of size 1, empty tensors and
// strides, so a backend receives contiguous, non-empty tensors. Sizes and dtypes are guaranteed to be equal on all
// ranks only where the calls were compared: by the front (arguments.h), or by the backend itself (`compares_calls`).
// They may differ on an unchecked() handle, and the lengths of messages may always differ.
#pragma once

#include <lockstep/base/status_page.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/progress.h>
#include <lockstep/comm/reduction/network_reduction.h>
#include <lockstep/net/tls_contexts.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

using reduction::NetworkCall;
using reduction::NetworkReduction;
using reduction::one_each;
using reduction::RankRange;
using reduction::ResultOf;

/// The identity of one collective call, for fingerprints and messages.
struct Call {
  std::string_view op;         ///< "all_reduce"
  std::uint64_t sequence = 0;  ///< counts the group's collectives from 1
  std::uint8_t kind = 0;       ///< the number of `op` on the status page
  std::chrono::steady_clock::time_point begun{};
  /// Hash of the OperatorTrace of the call (operator_trace.h), compared with that of other ranks; 0: none.
  std::uint64_t trace = 0;
  std::uint64_t step = 0;         ///< number of the step on that trace
  std::uint64_t bytes = 0;        ///< of the tensor that this rank gives, else of the received one; scatter: of a slice
  c10::Device device{c10::kCPU};  ///< of its tensors
  std::uint8_t element = 0;       ///< the number of their dtype on the status page
  StatusPage::Record record{};    ///< on the status page
};

/// The state of a Work. Implementations: a finished operation, a c10d work, an MPI request, a shared-memory operation.
/// One thread at a time calls a backend's own state. The front adds group, op and sequence number to its errors. It
/// does not call the state again after the state has returned or has thrown anything but a timeout.
class WorkState {
 public:
  virtual ~WorkState() = default;
  /// Blocks. Throws the operation's Error, or Error(timeout) after `timeout`. After a timeout it may be called again.
  virtual void wait(std::chrono::milliseconds timeout) = 0;
  /// Whether the operation is complete, or failed; never throws.
  virtual bool test() = 0;
  /// Whether `wait` would not block; never throws. On a device this is true earlier than `test`, because `wait` only
  /// orders streams there.
  virtual bool would_return() { return test(); }
  /// As `wait`; on a device it also blocks until the current stream has reached the end of the operation. Default:
  /// `wait`.
  virtual void synchronize(std::chrono::milliseconds timeout) { wait(timeout); }
  /// For callers that poll `test` instead of waiting: throws Error(peer_lost) when a rank whose part is missing has
  /// ended. It may take as long as a request to the store, so call it about every 50 ms. Default: `test` reports
  /// losses.
  virtual void check_peers() {}
};

/// Errors: a backend throws Error(peer_lost) or Error(timeout) when other ranks are the cause; this ends the group.
/// Error(unsupported) or Error(invalid_argument), which all ranks throw alike, does not end it. A backend reports only
/// what it has detected itself; the front finds out which rank died or gave up, and why (JobContext::find_cause).
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  using Pending = std::shared_ptr<WorkState>;

  // The collectives (kCollectiveNames in base/status_page.h has all names). Each is Error(unsupported) by default.

  virtual Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call);
  /// Changes only the tensor of root.
  virtual Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call);
  virtual Pending broadcast(at::Tensor& tensor, int root, const Call& call);
  virtual Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call& call);
  virtual Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call);
  virtual Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call& call);
  /// `output` is null on all ranks except root.
  virtual Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call& call);
  /// `input` is null on all ranks except root.
  virtual Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call& call);
  virtual Pending send(const at::Tensor& tensor, int destination, int tag, const Call& call);
  virtual Pending receive(at::Tensor& tensor, int source, int tag, const Call& call);

  // Reductions that the hierarchy backend needs from its engines, so that sums are subtrees of one tree
  // (reduction/kernels.h).

  /// Engine inside a host: on `root`, row i of `parts` becomes the reduction of the next ranks[i] ranks' inputs.
  virtual Pending reduce_parts(const at::Tensor& parts, const at::Tensor& input, int root,
                               const std::vector<int>& ranks, ReduceOp op, const Call& call);
  /// Engine between hosts: a reduction of the rows of the ranks' `input`, one row for each subtree. The other
  /// parameters are as in NetworkCall.
  virtual Pending combine(ResultOf kind, const at::Tensor& output, const at::Tensor& input,
                          const std::vector<std::vector<RankRange>>& brought, int root, ReduceOp op, const Call& call);

  // Operations without a tensor go to the backend for the CPU, so backends for CUDA alone keep the defaults of these.

  virtual Pending barrier(const Call& call);

  /// Exchanges `fingerprint` (the same length on every rank) and returns those of all ranks in rank order. It serves to
  /// turn a mismatch into an error, so it must work when ranks are in different collectives. It waits (`wait_in`).
  virtual std::vector<std::string> exchange(const std::string& fingerprint, const Call& call);

  /// True: the backend compares the ranks' calls as part of the call itself. Then `exchange` is not called before each
  /// collective. Collectives with empty tensors are also passed to the backend, and so is a call that was refused on
  /// this rank (`refuse`). A call that differs between ranks throws Error(mismatch) on all of them, and the group stays
  /// usable.
  virtual bool compares_calls() const { return false; }
  /// Takes this rank's part in a collective that it cannot make: the other ranks throw Error(mismatch) with
  /// `description`.
  virtual void refuse(const std::string& /*description*/) {}
  /// True: operations keep the tensors that they use until they are complete, or have registered the use with the owner
  /// of the memory, so the front need not keep them.
  virtual bool holds_tensors() const { return false; }

  /// A subgroup of this group is being made without this rank. Called on all ranks that are not in the subgroup, for
  /// engines in which the creation is collective over the whole group (BackendContext::parent).
  virtual void left_out_of_subgroup() {}

  /// Memory for `allocate`, called on every rank with the same arguments; default: ordinary memory.
  virtual at::Tensor allocate(std::int64_t elements, at::ScalarType dtype);

  // For engines without a thread of their own, which move data only inside calls (progress.h). Any thread calls these.

  /// Whether an operation is pending that advances only inside calls. Costs one or two loads.
  virtual bool is_unfinished() const noexcept { return false; }
  /// Advances the pending operations as far as possible without waiting, or leaves that to another thread that is
  /// already doing so. Errors are thrown by the waits for the operations.
  virtual Progressed advance() noexcept { return {}; }
  /// Whether waits in this backend also advance the pending operations of `other`.
  virtual bool advances(const Backend& other) const noexcept { return this == &other; }

  /// This rank gives up the group: pending operations on this rank and the other ranks fail soon, where the engine
  /// supports it. Only destruction may follow. Returns at once.
  virtual void abort() noexcept {}
};

/// The constructor arguments of a backend.
struct BackendContext {
  c10::intrusive_ptr<c10d::Store> store;  ///< private to this group (prefixed); for the rendezvous only, not for data
  int rank = 0;                           ///< in the group
  int size = 1;
  std::vector<int> world_ranks;  ///< by group rank
  std::string name;              ///< of the group, unique in the job
  std::chrono::milliseconds start_timeout{};
  std::chrono::milliseconds timeout{};
  bool one_host = true;    ///< all ranks of the group share a machine and its network
  std::vector<int> hosts;  ///< by group rank: the number of its host, counted from 0 in the order of their first ranks
  std::string network = "tcp";              ///< for hierarchy: the backend between hosts
  std::shared_ptr<const net::PeerTls> tls;  ///< of a job that encrypts: this process's certificates
  std::string bind_address;                 ///< the address at which other ranks reach this host; empty: not known
  Progress* progress = nullptr;             ///< of the job, for `wait_in`
  /// A group rank as text: "rank 2 (pid 4711 on node-b)".
  std::function<std::string(int rank)> describe_rank;
  /// For backends that wait by polling: throws Error(peer_lost) when one of the group ranks `waited_for` has ended or
  /// any rank of the job has given up. It costs about a round trip to the store, so call it about every 50 ms while
  /// waiting. Pass only ranks whose part is still missing: a rank that completed its part may have ended normally.
  std::function<void(const std::vector<int>& waited_for)> throw_if_lost;
  /// The same during the rendezvous, when no rank can have ended normally.
  std::function<void(const std::vector<int>& waited_for)> while_connecting;
  /// Only the second check: throws Error(peer_lost) with the reason of the rank that has given up. For waits that
  /// detect ended ranks in another way.
  std::function<void()> throw_if_failed;

  // For backends of a device.

  c10::Device device{c10::kCPU};  ///< this rank's
  Backend* beside = nullptr;      ///< the group's backend for the CPU, with the same ranks
  Backend* parent = nullptr;      ///< of a subgroup: the larger group's backend for the device, perhaps of another kind
  /// Ends the group because a call failed after it was started. Any thread; never throws.
  std::function<void(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited)> end_group;
};

/// Waits for an operation within a call of `own`, while all other pending operations of this process advance;
/// `progress` may be null.
inline void wait_in(Progress* progress, WorkState& work, Backend& own, std::chrono::milliseconds timeout) {
  progress ? progress->wait(work, own, timeout) : work.wait(timeout);
}

/// The ranks of a group of `size` without `rank`.
inline std::vector<int> others_of(int rank, int size) {
  std::vector<int> others;
  for (int other = 0; other < size; ++other) {
    if (other != rank) others.push_back(other);
  }
  return others;
}

/// The common part of backends whose engine only moves bytes: every reduction is one call of `combine`.
class NetworkBackend : public Backend {
 public:
  Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call) override {
    return combine(ResultOf::all_reduce, tensor, tensor, one_each(size_), 0, op, call);
  }

  Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call) override {
    return combine(ResultOf::reduce, rank_ == root ? tensor : at::Tensor(), tensor, one_each(size_), root, op, call);
  }

  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call) override {
    return combine(ResultOf::reduce_scatter, output, input, one_each(size_), 0, op, call);
  }

 protected:
  NetworkBackend(int rank, int size) : rank_(rank), size_(size) {}

  const int rank_;
  const int size_;
};

}  // namespace lockstep::detail
