// The Muon optimizer: momentum whose matrices are orthogonalised by Newton-Schulz steps, with AdamW for all other
// parameters. (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; as torch.optim.Muon.)
#pragma once

#include <lockstep/train/optimizer/own_optimizer.h>

#include <lockstep/base/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

/// The keys of optimizer.name muon.
struct MuonSettings {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  double eps = 1e-7;
  std::string adjust_lr = "original";
  bool orthogonalize = true;
  double adamw_lr_factor = 1;
  std::vector<double> betas = {0.9, 0.999};
  double adamw_eps = 1e-8;
};

void describe(ConfigFields& fields, MuonSettings& settings);

struct MuonOptions : torch::optim::OptimizerCloneableOptions<MuonOptions>, ScaledRate {
  MuonSettings settings{};
  double lr = 1e-3;
  double weight_decay = 0;

  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
};

/// For each parameter w of two dimensions [A, B] with the gradient g, where `orthogonalize` holds:
///   m = momentum m + (1 - momentum) g,  u = (1 - momentum) g + momentum m with nesterov, else m
///   w = w - lr weight_decay w - lr r O(u)
/// with r = sqrt(max(1, A / B)) for adjust_lr original, and 0.2 sqrt(max(A, B)) for match_rms_adamw. O makes all
/// singular values about 1: of X = u / max(|u|, eps), transposed where A > B, `ns_steps` times
///   X = a X + (b Y + c Y Y) X with Y = X X^T, a = 3.4445, b = -4.7750, c = 2.0315
/// rounded to bfloat16 after each product. All other parameters: AdamW with lr adamw_lr_factor, betas and adamw_eps.
/// The state of a matrix is torch::optim::SGDParamState (momentum_buffer), of others torch::optim::AdamWParamState.
/// Parameters must not be pieces of others. Global tensors are orthogonalised as a whole. For the rest see Lamb
/// (lamb.h).
class Muon : public OwnOptimizer {
 public:
  Muon(std::vector<torch::optim::OptimizerParamGroup> groups, const MuonOptions& defaults);

  torch::Tensor step(LossClosure closure = nullptr) override;
  std::vector<std::string> remembered_tensors() const override;
  NamedTensors memory_of(const at::Tensor& parameter) const override;
  void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) override;
};

}  // namespace lockstep::train
