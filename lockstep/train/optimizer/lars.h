// The LARS optimizer: momentum with gradients scaled for each parameter to the norm of its weights. (You, Gitman and
// Ginsburg, "Large Batch Training of Convolutional Networks", 2017, algorithm 1.)
#pragma once

#include <lockstep/train/optimizer/own_optimizer.h>

#include <string>
#include <vector>

namespace lockstep::train {

struct LarsOptions : torch::optim::OptimizerCloneableOptions<LarsOptions>, ScaledRate {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 0.001;
  double eps = 1e-8;
  bool adapt_1d = true;  ///< false: r = 1 for parameters of at most one dimension

  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
};

/// For each parameter w with the gradient g (| | is the 2-norm of the whole parameter):
///   r = trust_coefficient |w| / (|g| + weight_decay |w| + eps), and 1 where |w| or |g| is 0
///   v = momentum v + r (g + weight_decay w), where v is 0 before the first step
///   w = w - lr v
/// Other than in the paper, lr is not part of v, as in torch::optim::SGD: with r = 1 the two are the same, and a
/// schedule has the same meaning. The state of a parameter is torch::optim::SGDParamState: v is momentum_buffer, none
/// without momentum. For the rest see Lamb (lamb.h).
class Lars : public OwnOptimizer {
 public:
  Lars(std::vector<torch::optim::OptimizerParamGroup> groups, const LarsOptions& defaults);

  torch::Tensor step(LossClosure closure = nullptr) override;
  std::vector<std::string> remembered_tensors() const override;
  NamedTensors memory_of(const at::Tensor& parameter) const override;
  void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) override;
};

}  // namespace lockstep::train
