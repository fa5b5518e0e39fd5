// The sharded optimizer (ZeRO stage 1): every rank updates its share of the parameters.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/kernels/optimizer_update.h>
#include <lockstep/mirrored/data_parallel.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

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

}  // namespace lockstep
