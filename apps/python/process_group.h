// The backend "lockstep" of torch.distributed.
#pragma once

#include <apps/python/message_queue.h>
#include <apps/python/operation_queue.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::python {

/// One process group on one rank. Its functions return at once, but for those that a caller waits for anyway; errors of
/// arguments are thrown, all others are in the Work. Thread-safe: calls of several threads get an arbitrary order.
///
/// A failure ends the group (lockstep/comm/group.h), except for a mismatch of arguments between ranks.
class LockstepBackend : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using TensorList = std::vector<at::Tensor>;
  using Lists = std::vector<TensorList>;

  explicit LockstepBackend(const Member& member);
  ~LockstepBackend() override;

  const std::string getBackendName() const override { return "lockstep"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void setSequenceNumberForGroup() override {}  // all ranks count from 0
  std::uint64_t getSequenceNumberForGroup() override { return number_; }
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }

  WorkPtr broadcast(TensorList& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(TensorList& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(TensorList& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(TensorList& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(TensorList& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Lists& outputs, TensorList& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(Lists& outputs, TensorList& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Lists& outputs, TensorList& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(TensorList& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(TensorList& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(TensorList& outputs, TensorList& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  /// Works of the calls between both are one, which the second returns. They are executed as without it.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  /// Memory that all_reduce uses without a copy: shared memory where all ranks are on one host. Collective. For DDP's
  /// buckets and FSDP2.
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }  // that of the CPU
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;
  WorkPtr send(TensorList& tensors, int destination, int tag) override;
  WorkPtr recv(TensorList& tensors, int source, int tag) override;
  WorkPtr recvAnysource(TensorList& tensors, int tag) override;

  /// Pending operations fail, here and on the other ranks. May be called again.
  void abort() override;
  /// Pending operations get some seconds to complete. May be called again.
  void shutdown() override;
  bool closed() const { return closed_; }

 private:
  struct Call {
    c10d::OpType type;
    const char* title;
    CallTensors tensors;
    std::chrono::milliseconds timeout;
    bool async = true;
  };
  WorkPtr run(Call call, std::function<void(const Group&, CallTensors&, Limit)> execute);
  WorkPtr post(c10d::OpType type, const char* title, const at::Tensor& tensor, std::optional<int> peer, int tag);
  c10::intrusive_ptr<TorchWork> new_work(const CallFacts& facts);
  Limit limit_of(std::chrono::milliseconds timeout) const;
  void stop(const std::string& reason, std::chrono::milliseconds patience);

  const pid_t process_ = ::getpid();
  const std::chrono::milliseconds first_timeout_;  ///< of the lockstep::Group
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> number_{0};
  std::atomic<bool> closed_{false};
  std::mutex coalescing_;
  std::optional<std::vector<c10::intrusive_ptr<TorchWork>>> coalesced_;  ///< guarded by coalescing_
  /// What has threads. A forked child has none of them, and leaves it as it is.
  struct Threaded {
    explicit Threaded(const Member& member)
        : operations(member), messages([this] { return operations.await_messages(); }) {}
    std::shared_ptr<CallbackThreads> callbacks = std::make_shared<CallbackThreads>();
    OperationQueue operations;
    MessageQueue messages;
  };
  std::unique_ptr<Threaded> threaded_;
};

}  // namespace lockstep::python
