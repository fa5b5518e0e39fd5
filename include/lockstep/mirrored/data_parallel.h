// Data parallel training: every rank holds a replica, gradients are averaged while backward still runs.
#pragma once

#include <lockstep/comm/group.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace lockstep {

/// The handling of buffers (for example BatchNorm's running statistics) during training. All policies start with
/// rank 0's buffers on all ranks.
enum class BufferPolicy {
  broadcast,  ///< after each synchronized backward every rank takes rank 0's (as torch's DDP before each forward)
  local,      ///< each rank keeps its own; `synchronize_buffers` before evaluating or saving
};

struct DataParallelOptions {
  /// grad = (1 / size) * sum over ranks of their grads; when false, the sum. Each rank weighs the same, whatever the
  /// size of its batch.
  bool gradients_mean = true;
  std::int64_t bucket_bytes = 25 << 20;       ///< gradients travel in buckets of about this size
  std::int64_t first_bucket_bytes = 1 << 20;  ///< the first to be ready is smaller, so that communication starts early
  BufferPolicy buffers = BufferPolicy::broadcast;
  /// BatchNorm1d, 2d and 3d normalize by the statistics of all ranks' pictures, as Python's SyncBatchNorm does, and
  /// their running statistics are equal on all ranks (and sent only if the module has other buffers). Ranks meet twice
  /// for each in a step. They all call forward, and backward if anyone does, equally often; one without a batch does so
  /// with an empty one (sizes [0, ...]; its loss may be `output.sum()`), not with backward_without_data. libtorch
  /// refuses a batch with a single value of each channel on any rank. A rank that throws on the way leaves the others
  /// waiting: then the job is over.
  bool sync_batch_norm = false;
};

/// Keeps the replicas of one module equal. Construct it when the module has its final dtype, device and
/// requires_grad flags and before the optimizer; it broadcasts rank 0's parameters and buffers and hooks the gradients:
///
///     auto group = lockstep::init();
///     lockstep::DataParallel parallel(model, group);
///     ... the program's own loop: forward, backward, optimizer.step() ...
///
/// `backward()` returns with every rank's `.grad()` holding the same averaged values, bit for bit. A backward on top of
/// existing gradients adds to them as it does on one rank. Parameters that took no part in this backward on any rank
/// keep their `.grad()` as it was; those unused only here get the other ranks' gradients. `.grad()` is a part of a
/// communication buffer, so a handle to it sees later backwards' values, too.
///
/// Every rank calls the same number of backwards, each of which uses at least one parameter (`backward_without_data`
/// stands in for one). Parameters may be shared, frozen, used several times, or used in some steps only. With
/// `create_graph`, values are averaged but `.grad()` itself cannot be differentiated again.
///
/// Works with any optimizer; one that looks at the loss (LBFGS) must be given the same loss on all ranks. After an
/// exception from `backward()` gradients are undetermined; when all ranks skip that step, the next one is right again.
/// Not thread-safe; one backward at a time.
///
/// Errors: Error(mismatch) naming the parameter when ranks built different modules, or when a rank went on after an
/// exception that the others did not have; Error(unsupported) naming a parameter that is complex or gets a sparse
/// gradient, or a batch norm that cannot be synchronized (one that is not on the CPU or has no running statistics);
/// Error(invalid_argument) where another DataParallel that is alive synchronizes it; errors of the collectives. Those
/// found during backward come out of `backward()`.
class DataParallel {
 public:
  DataParallel(std::shared_ptr<torch::nn::Module> module, Group group, DataParallelOptions options = {});
  template <typename Contained>
  DataParallel(const torch::nn::ModuleHolder<Contained>& holder, Group group, DataParallelOptions options = {})
      : DataParallel(as_module(holder.ptr()), std::move(group), options) {}
  ~DataParallel();
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// While it exists, backward accumulates locally and nothing is sent; the first backward after it sends the sum.
  class NoSync {
   public:
    explicit NoSync(DataParallel& parallel);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& parallel_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// For a rank that has no batch left while others have: takes part in their backward with zero gradients, and ends
  /// with the same `.grad()` as they do. Sends what was accumulated under no_sync, so on all ranks together it is
  /// a synchronization without a backward. Does nothing under no_sync.
  void backward_without_data();

  /// Votes to stop: sets a flag of this rank that is sent with the gradients from the next synchronized backward on,
  /// for free. With it ranks agree on the step after which they react to an event that only some of them saw, such as a
  /// signal.
  void vote_to_stop();

  /// The number of votes in the last synchronized backward: the same on all ranks.
  int stop_votes() const;

  /// Every rank takes rank 0's buffers. A collective.
  void synchronize_buffers();

  torch::nn::Module& module() const;
  const Group& group() const;

 private:
  template <typename Contained>
  static std::shared_ptr<torch::nn::Module> as_module(const std::shared_ptr<Contained>& module) {
    return module;
  }
  bool synchronizes() const;
  void set_synchronizes(bool synchronizes);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
