// The Muon optimizer: momentum whose matrices are orthogonalised by Newton-Schulz steps, with AdamW for all other
// parameters. (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; as torch.optim.Muon.)
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/train/optimizer/own_optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

void describe(ConfigFields& fields, MuonSettings& settings) {
  fields.field("momentum", settings.momentum, or_default(from_to_below(0, 1)),
               "share of the old momentum of matrices; null: the default");
  fields.field("nesterov", settings.nesterov, anything(), "Nesterov's form");
  fields.field("ns_steps", settings.ns_steps, between(1, 99), "Newton-Schulz steps, which orthogonalise a matrix");
  fields.field("eps", settings.eps, {.low = 0, .high = kMostOptimizerRate, .low_excluded = true},
               "smaller norms of matrices count as this");
  fields.field("adjust_lr", settings.adjust_lr, one_of({"original", "match_rms_adamw"}),
               "factor of lr for a matrix [A, B]. original: sqrt(max(1, A / B)); match_rms_adamw: 0.2 sqrt(max(A, B)), "
               "so that lr and weight_decay may be AdamW's");
  fields.field("orthogonalize", settings.orthogonalize, anything(),
               "false: matrices are updated by AdamW, too; for embeddings and the last layer, in optimizer.groups");
  fields.field("adamw_lr_factor", settings.adamw_lr_factor, between(0, kMostOptimizerRate),
               "of lr, for the parameters that AdamW updates");
  fields.field("betas", settings.betas, items(2, from_to_below(0, 1)), "AdamW's decay of the two moments");
  fields.field("adamw_eps", settings.adamw_eps, {.low = 0, .high = kMostOptimizerRate, .low_excluded = true},
               "AdamW's: added to the denominator");
}

namespace {

struct MuonOptions : torch::optim::OptimizerCloneableOptions<MuonOptions>, ScaledRate {
  MuonSettings settings{};
  double lr = 1e-3;
  double weight_decay = 0;

  double get_lr() const override { return lr; }
  void set_lr(const double rate) override { lr = rate; }
};

using MatrixState = torch::optim::SGDParamState;
using OtherState = torch::optim::AdamWParamState;

constexpr double kFirst = 3.4445, kThird = -4.7750, kFifth = 2.0315;  // coefficients of X, X^3 and X^5

bool is_orthogonalized(const at::Tensor& parameter, const MuonOptions& options) {
  return options.settings.orthogonalize && parameter.dim() == 2;
}

at::Tensor orthogonalized(const at::Tensor& matrix, const MuonSettings& settings) {
  // On the CPU the numbers are bfloat16's, and products add up in float32: libtorch's own products of bfloat16 differ
  // there between its versions, and are slow on processors without instructions for them.
  const auto dtype = matrix.is_cuda() ? torch::kBFloat16 : torch::kFloat;
  const auto rounded = [dtype](const at::Tensor& tensor) { return tensor.to(torch::kBFloat16).to(dtype); };
  const bool tall = matrix.size(0) > matrix.size(1);
  auto x = rounded(matrix);
  if (tall) x = x.t();
  x = rounded(x / rounded(x.norm()).clamp_min(settings.eps));
  for (std::int64_t step = 0; step < settings.ns_steps; ++step) {
    const auto square = rounded(x.mm(x.t()));
    const auto factor = rounded(torch::addmm(square, square, square, kThird, kFifth));
    x = rounded(torch::addmm(x, factor, x, kFirst, 1));
  }
  return tall ? x.t() : x;
}

double rate_ratio(const at::Tensor& matrix, const std::string& adjust_lr) {
  const auto rows = static_cast<double>(matrix.size(0)), columns = static_cast<double>(matrix.size(1));
  if (adjust_lr == "match_rms_adamw") return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

void update_matrix(at::Tensor& parameter, MatrixState& state, const MuonOptions& options) {
  const auto& settings = options.settings;
  const auto& gradient = parameter.grad();
  if (!state.momentum_buffer().defined()) {
    state.momentum_buffer(torch::zeros_like(parameter, at::MemoryFormat::Preserve));
  }
  auto momentum = state.momentum_buffer();
  momentum.lerp_(gradient, 1 - settings.momentum);
  const auto direction = settings.nesterov ? gradient.lerp(momentum, settings.momentum) : momentum;
  const auto update = orthogonalized(direction, settings);
  if (options.weight_decay != 0) parameter.mul_(1 - options.lr * options.weight_decay);
  parameter.add_(update, -options.lr * rate_ratio(parameter, settings.adjust_lr));
}

/// The same update as torch::optim::AdamW.
void update_other(at::Tensor& parameter, OtherState& state, const MuonOptions& options) {
  const auto& gradient = parameter.grad();
  const double beta1 = options.settings.betas.at(0), beta2 = options.settings.betas.at(1);
  const double lr = options.lr * options.settings.adamw_lr_factor;
  if (!state.exp_avg().defined()) {
    state.exp_avg(torch::zeros_like(parameter, at::MemoryFormat::Preserve));
    state.exp_avg_sq(torch::zeros_like(parameter, at::MemoryFormat::Preserve));
  }
  state.step(state.step() + 1);
  const auto t = static_cast<double>(state.step());
  if (options.weight_decay != 0) parameter.mul_(1 - lr * options.weight_decay);
  auto average = state.exp_avg();
  auto square = state.exp_avg_sq();
  average.mul_(beta1).add_(gradient, 1 - beta1);
  square.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const auto root = (square.sqrt() / std::sqrt(1 - std::pow(beta2, t))).add_(options.settings.adamw_eps);
  parameter.addcdiv_(average, root, -lr / (1 - std::pow(beta1, t)));
}

/// For each parameter w of two dimensions [A, B] with the gradient g, where `orthogonalize` holds:
///   m = momentum m + (1 - momentum) g,  u = (1 - momentum) g + momentum m with nesterov, else m
///   w = w - lr weight_decay w - lr r O(u)
/// with r = sqrt(max(1, A / B)) for adjust_lr original, and 0.2 sqrt(max(A, B)) for match_rms_adamw. O makes all
/// singular values about 1: of X = u / max(|u|, eps), transposed where A > B, `ns_steps` times
///   X = a X + (b Y + c Y Y) X with Y = X X^T, a = 3.4445, b = -4.7750, c = 2.0315
/// rounded to bfloat16 after each product. All other parameters: AdamW with lr adamw_lr_factor, betas and adamw_eps.
/// The state of a matrix is torch::optim::SGDParamState (momentum_buffer), of others torch::optim::AdamWParamState.
/// Parameters must not be pieces of others. Global tensors are orthogonalised as a whole. For the rest see Lamb
/// (layerwise.cpp).
class Muon : public OwnOptimizer {
 public:
  Muon(std::vector<torch::optim::OptimizerParamGroup> groups, const MuonOptions& defaults)
      : OwnOptimizer(std::move(groups), std::make_unique<MuonOptions>(defaults)) {}

  torch::Tensor step(LossClosure closure = nullptr) override {
    return step_over<MuonOptions>(param_groups_, closure, [this](at::Tensor& parameter, const MuonOptions& options) {
      if (is_orthogonalized(parameter, options)) {
        update_matrix(parameter, state_for<MatrixState>(state_, parameter), options);
      } else {
        update_other(parameter, state_for<OtherState>(state_, parameter), options);
      }
    });
  }

  std::vector<std::string> remembered_tensors() const override { return {"momentum_buffer", "exp_avg", "exp_avg_sq"}; }

  NamedTensors memory_of(const at::Tensor& parameter) const override {
    const auto* options = options_for(*this, parameter);
    if (options == nullptr) return {};
    if (is_orthogonalized(parameter, static_cast<const MuonOptions&>(*options))) {
      return fields_of_momentum(find_state<MatrixState>(*this, parameter));
    }
    return fields_of_moments(find_state<OtherState>(*this, parameter));
  }

  void load_memory_of(const at::Tensor& parameter, NamedTensors& saved) override {
    const auto* options = options_for(*this, parameter);
    if (options == nullptr) return;
    if (is_orthogonalized(parameter, static_cast<const MuonOptions&>(*options))) {
      put_state(*this, parameter, take_momentum(saved, parameter));
    } else {
      put_state(*this, parameter, take_moments<OtherState>(saved, parameter));
    }
  }
};

std::unique_ptr<torch::optim::Optimizer> make_muon(const std::vector<at::Tensor>& parameters,
                                                   const OptimizerConfig& config) {
  MuonOptions options;
  options.settings = config.options.as<MuonSettings>();
  options.lr = config.lr;
  options.weight_decay = config.weight_decay;
  return std::make_unique<Muon>(std::vector{torch::optim::OptimizerParamGroup(parameters)}, options);
}

void check_muon(const OptimizerConfig& config) { require_two_betas(config.options.as<MuonSettings>().betas); }

}  // namespace

void add_muon(Parts& parts) {
  parts.optimizers.push_back({.name = "muon",
                              .doc = "orthogonalised momentum for matrices, AdamW for other parameters",
                              .options = PartOptions::of(MuonSettings{}),
                              .make = make_muon,
                              .check = check_muon});
}

}  // namespace lockstep::train
