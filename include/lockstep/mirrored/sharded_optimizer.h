// The sharded optimizer (ZeRO stage 1): every rank updates its share of the parameters.
#pragma once

#include <lockstep/mirrored/parameter_shards.h>

#include <utility>

namespace lockstep {

/// Replaces `Optimizer` (any of torch::optim but LBFGS) in a data-parallel program: each rank updates 1/size of
/// the parameters and gets the rest from the others, so that neither the work nor the memory of the optimizer is
/// repeated on every rank. Known elsewhere as ZeRO stage 1 and ZeroRedundancyOptimizer.
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
    inner_.step();
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
