// The LAMB optimizer: Adam's update, scaled for each parameter to the norm of its weights. (You et al., "Large Batch
// Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2.)
#pragma once

#include <lockstep/train/optimizer/own_optimizer.h>

#include <string>
#include <vector>

namespace lockstep::train {

struct LambOptions : torch::optim::OptimizerCloneableOptions<LambOptions>, ScaledRate {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double max_weight_norm = 10;  ///< gamma_u of the paper; its gamma_l is 0
  bool adapt_1d = true;         ///< false: r = 1 for parameters of at most one dimension

  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
};

/// In step t, for each parameter w with the gradient g (| | is the 2-norm of the whole parameter):
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w
///   r = min(|w|, max_weight_norm) / |u|, and 1 where |w| or |u| is 0
///   w = w - lr r u
/// The state of a parameter is torch::optim::AdamParamState: m is exp_avg, v is exp_avg_sq. Nothing is read on the
/// host, so a step can be traced. Global tensors have global norms. Parameters must not be pieces of others: their
/// norms would be wrong. `step` is for parameters with dense gradients; `save` and `load` are not supported, see
/// optimizer_state().
class Lamb : public OwnOptimizer {
 public:
  Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, const LambOptions& defaults);

  torch::Tensor step(LossClosure closure = nullptr) override;
  std::vector<std::string> remembered_tensors() const override;
  NamedTensors memory_of(const at::Tensor& parameter) const override;
  void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) override;
};

}  // namespace lockstep::train
