// The options of the shipped optimizers, schedules and wrappers: their keys in the sections `optimizer`, `scheduler`
// and `parallel.wrapper`, in addition to the keys that all parts of a kind have. Plain values. A program sets them with
// choose() of parts.h. The schedules constant and cosine and the other wrappers have no options.
#pragma once

#include <lockstep/base/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

/// sgd, and momentum, where `momentum` is 0.9 (torch::optim::SGD).
struct SgdSettings {
  double momentum = 0;
  bool nesterov = false;
  double dampening = 0;
};

/// adam, adamw (torch::optim::Adam, AdamW), lazy_adam.
struct AdamSettings {
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
};

/// rmsprop (torch::optim::RMSprop).
struct RmspropSettings {
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  bool centered = false;
};

/// adagrad (torch::optim::Adagrad).
struct AdagradSettings {
  double lr_decay = 0;
  double initial_accumulator = 0;
  double eps = 1e-8;
};

/// lazy_momentum.
struct LazyMomentumSettings {
  double momentum = 0.9;
};

/// lazy_adagrad.
struct LazyAdagradSettings {
  double initial_accumulator = 0;
  double eps = 1e-8;
};

/// ftrl (McMahan et al., "Ad Click Prediction: a View from the Trenches", 2013).
struct FtrlSettings {
  double l1 = 0;
  double l2 = 0;
  double initial_accumulator = 1;
};

/// lars (You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017).
struct LarsSettings {
  double momentum = 0.9;
  double trust_coefficient = 0.001;
  double eps = 1e-8;
  bool adapt_1d = true;
};

/// lamb (You et al., "Large Batch Optimization for Deep Learning", 2020).
struct LambSettings {
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double max_weight_norm = 10;
  bool adapt_1d = true;
};

/// muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024).
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

/// step: times gamma after each step_size epochs or steps.
struct StepSettings {
  std::int64_t step_size = 30;
  double gamma = 0.1;
  std::string unit = "epochs";
};

/// multi_step: times gamma at each of the milestones, which ascend.
struct MultiStepSettings {
  std::vector<std::int64_t> milestones{};
  double gamma = 0.1;
  std::string unit = "epochs";
};

/// exponential: times gamma after each epoch or step.
struct ExponentialSettings {
  double gamma = 0.1;
  std::string unit = "epochs";
};

/// polynomial: the rest of the run to this power.
struct PolynomialSettings {
  double power = 1;
};

/// one_cycle (Smith and Topin, "Super-Convergence", 2018)
struct OneCycleSettings {
  double pct_start = 0.3;
  std::string anneal = "cosine";
  double div_factor = 25;
  double final_div_factor = 10000;
};

/// The wrapper fully_sharded.
struct FullyShardedSettings {
  double threshold_kb = 64;  ///< KiB of the smallest parameter that is divided
};

// Keys, ranges and meanings (docs/configuration.md).
void describe(ConfigFields& fields, SgdSettings& settings);
void describe(ConfigFields& fields, AdamSettings& settings);
void describe(ConfigFields& fields, RmspropSettings& settings);
void describe(ConfigFields& fields, AdagradSettings& settings);
void describe(ConfigFields& fields, LazyMomentumSettings& settings);
void describe(ConfigFields& fields, LazyAdagradSettings& settings);
void describe(ConfigFields& fields, FtrlSettings& settings);
void describe(ConfigFields& fields, LarsSettings& settings);
void describe(ConfigFields& fields, LambSettings& settings);
void describe(ConfigFields& fields, MuonSettings& settings);
void describe(ConfigFields& fields, StepSettings& settings);
void describe(ConfigFields& fields, MultiStepSettings& settings);
void describe(ConfigFields& fields, ExponentialSettings& settings);
void describe(ConfigFields& fields, PolynomialSettings& settings);
void describe(ConfigFields& fields, OneCycleSettings& settings);
void describe(ConfigFields& fields, FullyShardedSettings& settings);

}  // namespace lockstep::train
