// Data parallel training: every rank holds a replica, gradients are averaged while backward still runs.
#pragma once

#include <lockstep/comm/group.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace lockstep {

/// The handling of buffers (for example BatchNorm's running statistics) during training. All policies start with
/// rank 0's buffers on all ranks.
enum class BufferPolicy {
  broadcast,  ///< after each synchronized backward, rank 0's buffers are broadcast (torch's DDP does so before each
              ///< forward)
  local,      ///< each rank keeps its own buffers; call `synchronize_buffers` before evaluating or saving
};

/// The exchange of gradients of sparse embeddings: torch::nn::Embedding and EmbeddingBag with sparse(true), float32 on
/// the CPU. The numbers are the same.
enum class SparseGradients {
  rows,   ///< ids and rows of the step, which all ranks gather; `.grad()` is sparse, with the rows that any rank has
  dense,  ///< whole tables, in the buckets; `.grad()` is dense
};

struct DataParallelOptions {
  /// grad = (1 / size) * sum of all ranks' grads; when false, the sum. All ranks have the same weight, independent of
  /// their batch sizes.
  bool gradients_mean = true;
  std::int64_t bucket_bytes = 25 << 20;       ///< gradients are reduced in buckets of about this size
  std::int64_t first_bucket_bytes = 1 << 20;  ///< the first bucket is smaller, so that communication starts early
  BufferPolicy buffers = BufferPolicy::broadcast;
  /// BatchNorm1d, 2d and 3d normalize by the statistics of all ranks' pictures, as Python's SyncBatchNorm does, and
  /// their running statistics are equal on all ranks (and sent only if the module has other buffers). Each batch norm
  /// costs two collectives per step, one in forward and one in backward. All ranks must call forward equally often, and
  /// backward, too. A rank without a batch calls them with an empty batch (sizes [0, ...]; its loss may be
  /// `output.sum()`), not backward_without_data. libtorch rejects a batch with a single value per channel on any rank.
  /// If a rank throws during forward or backward, the other ranks wait for it until the timeout, and the job cannot
  /// continue.
  bool sync_batch_norm = false;
  /// Sparse gradients of other modules become dense in either case.
  SparseGradients sparse_gradients = SparseGradients::rows;
  /// Names of parameters whose gradients stay those of this rank, because the program has another way to update them.
  /// All ranks begin with rank 0's values. Error(invalid_argument) for a name that the module does not have.
  std::vector<std::string> ignored{};
};

/// The data-parallel wrapper of a module: keeps the replicas on all ranks equal. Construct it when the module has its
/// final dtype, device and requires_grad flags, and before the optimizer. The constructor broadcasts rank 0's
/// parameters and buffers and installs hooks on the gradients:
///
///     auto group = lockstep::init();
///     lockstep::DataParallel parallel(model, group);
///     ... the program's own loop: forward, backward, optimizer.step() ...
///
/// Gradients are averaged as long as this object exists. Weights may be loaded later, too (torch::load), on all ranks;
/// another dtype, new parameters, or a gradient for a parameter that was frozen here, need a new DataParallel.
///
/// When `backward()` returns, `.grad()` holds the same averaged values on every rank, bit for bit. If gradients exist
/// already, backward adds to them as it does on one rank. Parameters that no rank used in this backward keep their
/// `.grad()` unchanged; parameters that only this rank did not use get the average over all ranks. `.grad()` is a part
/// of a communication buffer, so a handle to it sees the values of later backward passes, too.
///
/// Every rank calls backward the same number of times, and each call uses at least one parameter
/// (`backward_without_data` replaces a backward). Parameters may be shared, frozen, used several times, or used in some
/// steps only. With `create_graph`, values are averaged but `.grad()` itself cannot be differentiated again.
///
/// Works with any optimizer; an optimizer that reads the loss (LBFGS) must get the same loss on all ranks. After an
/// exception from `backward()` the gradients are undefined; if all ranks skip that step, the next step is correct
/// again. Not thread-safe; one backward at a time.
///
/// Errors: Error(mismatch) naming the parameter when ranks built different modules, or when a rank continued after an
/// exception that the other ranks did not have, or only some ranks have loaded weights since, or ranks run the models
/// of several DataParallel objects in different orders; Error(unsupported) naming a parameter that is complex, or the
/// table of a sparse embedding that gets a dense gradient, too, or a batch norm that cannot be synchronized (one
/// without running statistics); Error(invalid_argument) when a batch norm of the module is already synchronized by
/// another DataParallel object, or the module's parameters have changed as described above; errors of the collectives.
/// Errors found during backward are thrown by `backward()`.
class DataParallel {
 public:
  [[nodiscard]] DataParallel(std::shared_ptr<torch::nn::Module> module, Group group, DataParallelOptions options = {});
  template <typename Contained>
  [[nodiscard]] DataParallel(const torch::nn::ModuleHolder<Contained>& holder, Group group,
                             DataParallelOptions options = {})
      : DataParallel(as_module(holder.ptr()), std::move(group), options) {}
  ~DataParallel();
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// A scope without synchronization, for gradient accumulation. While it exists, backward accumulates gradients
  /// locally without communication; the first backward after it reduces the sum.
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

  /// For a rank that has no batch left while other ranks have: takes part in their backward with zero gradients, and
  /// ends with the same `.grad()`. Gradients accumulated under no_sync are reduced, so when all ranks call it, it
  /// synchronizes gradients without a backward. Does nothing under no_sync.
  void backward_without_data();

  /// Votes: sets a flag of this rank that is sent with the gradients from the next synchronized backward on, until it
  /// is changed, without additional messages. So ranks can agree on the step after which they react to an event that
  /// only some of them received, such as a signal. There are kVotes flags, `subject` 0 and following; the program gives
  /// them their meaning.
  static constexpr int kVotes = 4;
  void vote(int subject, bool yes = true);

  /// The number of ranks that voted for it in the last synchronized backward: the same on all ranks.
  int votes(int subject) const;

  /// Broadcasts rank 0's buffers to all ranks. A collective.
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
