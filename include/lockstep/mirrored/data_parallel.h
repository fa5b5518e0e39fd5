// Data parallel training: every rank holds a replica, gradients are averaged while backward still runs. The sharded
// optimizer (ZeRO stage 1), where every rank updates its share of the parameters; and a training step without launch
// costs, recorded once as a CUDA graph.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/kernels/tuning.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn
namespace torch::optim {
class Optimizer;
}

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

// Sharding of the optimizer's work (ZeRO stage 1): each rank updates its own part of the parameters and gets the other
// parts from the other ranks.

/// The part of a module's trainable parameters that this rank updates, as a list of `pieces` to construct any
/// elementwise optimizer from (all of torch::optim but LBFGS). An update is then
///
///     shards.take_gradients();
///     optimizer.step();
///     shards.share();
///
/// which ShardedOptimizer does in one call. Gradients must be complete and the same on all ranks, as DataParallel
/// leaves them; parameters are equal on all ranks again when `share` returns. The optimizer's state (momentum) and work
/// on each rank are 1/size of those without shards. Pieces are small enough to stay in a core's cache while the
/// optimizer processes them. Results equal those of the unsharded optimizer.
///
/// The module's parameters remain the same tensor objects, but their memory moves into memory that the group allocates.
/// So construct it after the module has its final dtype, device and memory format, and do not replace `.data()` later.
///
/// Not thread-safe. The constructor, `share` and `whole` are collectives. Errors: Error(unsupported) naming a parameter
/// with a sparse gradient; Error(invalid_argument) naming one whose memory was replaced; errors of the collectives.
class ParameterShards {
 public:
  explicit ParameterShards(const DataParallel& parallel);
  ~ParameterShards();
  ParameterShards(ParameterShards&&) noexcept;
  ParameterShards& operator=(ParameterShards&&) noexcept;
  ParameterShards(const ParameterShards&) = delete;
  ParameterShards& operator=(const ParameterShards&) = delete;

  /// The pieces that this rank updates: one-dimensional tensors in the parameters' memory; those of one parameter are
  /// consecutive.
  const std::vector<at::Tensor>& pieces() const;
  /// The pieces of some parameters only, for an optimizer with several groups.
  std::vector<at::Tensor> pieces_of(const std::vector<at::Tensor>& parameters) const;

  /// Zeros the complete `.grad()` of every parameter, or removes it.
  void zero_gradients(bool set_to_none);

  /// Sets the `.grad()` of each piece to its part of the parameter's `.grad()`, or to undefined where the parameter has
  /// none.
  void take_gradients();
  /// Removes the gradients from the pieces, and all-gathers the updated parts. A collective.
  void share();

  /// Gathers optimizer state, for checkpoints. `of_pieces` has, for each piece, a tensor of the piece's size or an
  /// undefined tensor. Returns, for each parameter, a tensor of its shape; undefined where no rank had state. A
  /// collective.
  std::vector<at::Tensor> whole(const std::vector<at::Tensor>& of_pieces) const;
  /// The reverse of `whole`: copies of this rank's parts. Not a collective.
  std::vector<at::Tensor> parts(const std::vector<at::Tensor>& of_parameters) const;

  /// The module's parameters, each once, in the order of `whole`.
  const std::vector<at::Tensor>& parameters() const;
  /// The index in `parameters` of the parameter that a piece belongs to.
  std::size_t owner(std::size_t piece) const;
  /// The position of a piece in its parameter's memory, in elements.
  struct Stretch {
    std::size_t parameter = 0;  ///< index in `parameters`
    std::int64_t begin = 0;
    std::int64_t elements = 0;
  };
  /// The stretches of the pieces that `rank` updates; `rank` is from 0 to size() - 1.
  std::vector<Stretch> stretches_of(int rank) const;
  const Group& group() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Replaces `Optimizer` (any of torch::optim but LBFGS) in a data-parallel program: each rank updates 1/size of
/// the parameters and gets the rest from the other ranks, so that neither the work nor the memory of the optimizer is
/// repeated on every rank. Other names for it are ZeRO stage 1 and ZeroRedundancyOptimizer.
///
///     lockstep::DataParallel parallel(model, group);
///     lockstep::ShardedOptimizer<torch::optim::SGD> optimizer(parallel, torch::optim::SGDOptions(0.1).momentum(0.9));
///
/// After `step`, parameters have the values that the unsharded optimizer would give. The constructor and `step` are
/// collectives; see ParameterShards for rules and errors.
template <typename Optimizer>
class ShardedOptimizer {
 public:
  template <typename Options>
  ShardedOptimizer(const DataParallel& parallel, Options&& options)
      : shards_(parallel), inner_(shards_.pieces(), std::forward<Options>(options)) {}

  void step() {
    shards_.take_gradients();
    update(inner_);
    shards_.share();
  }

  void zero_grad(bool set_to_none = false) { shards_.zero_gradients(set_to_none); }

  /// The optimizer of this rank's pieces. Set learning rates here, with the same value on every rank.
  Optimizer& inner() { return inner_; }

 private:
  ParameterShards shards_;
  Optimizer inner_;
};

// A training step without launch costs: forward, backward and update are recorded once as a CUDA graph, and each step
// is a single launch from then on.
//
//   lockstep::GraphedStep step(parallel, optimizer, [&](const std::vector<at::Tensor>& in) {
//     return torch::cross_entropy_loss(model->forward(in[0]), in[1]);
//   });
//   for (auto& batch : batches) auto loss = step.run({batch.data, batch.target});

/// Steps of a model on a CUDA device: gradients are removed, then loss, backward and lockstep::update (kernels/
/// tuning.h). The first three steps run as written. The fourth is recorded, and runs as a graph like all that
/// follow. Results equal those of steps that are not recorded.
///
/// A recorded step may only contain work on the device with the shapes of the first inputs. It must not read a number
/// on the host (`item()`), copy from the CPU, or choose between branches by a value. If the recording fails, all steps
/// run as written, and `why_not_recorded` has the reason. Learning rates may change between steps (the optimizer's
/// options); its other settings must not change after the recording.
///
/// Not thread-safe. `parallel`, its module and `optimizer` must outlive it.
class GraphedStep {
 public:
  using Loss = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

  /// Error(invalid_argument) without parameters. `loss` gives a scalar; it is called for the first steps only, so it
  /// must not store inputs.
  GraphedStep(const DataParallel& parallel, torch::optim::Optimizer& optimizer, Loss loss);
  ~GraphedStep();
  GraphedStep(const GraphedStep&) = delete;
  GraphedStep& operator=(const GraphedStep&) = delete;

  /// One step with `inputs`, which are copied: from the device, or without waiting from pinned memory. Inputs of other
  /// shapes or dtypes than those recorded (a last, smaller batch) run as written. Returns the loss on the device, which
  /// the next step overwrites. Gradients are undefined afterwards.
  at::Tensor run(const std::vector<at::Tensor>& inputs);

  bool is_recorded() const;
  /// The reason why steps are not recorded, as text; nullopt before the recording, and after a successful one.
  const std::optional<std::string>& why_not_recorded() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
