// Losses and optimizers against their formulas, and their state.
#include <lockstep/base/config.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/tasks/classification.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/expect_error.h"

namespace lockstep::train {
namespace {

using test::expect_error;

at::Tensor loss_of(LossKind kind, const at::Tensor& logits, const at::Tensor& labels, double smoothing = 0) {
  return classification_loss(kind, logits, labels, smoothing);
}

TEST(Loss, OfEqualLogitsIsTheLogarithmOfTheClasses) {
  const auto logits = torch::zeros({4, 10});
  const auto labels = torch::tensor({0, 3, 9, 9}, torch::kLong);
  for (const auto kind : {LossKind::cross_entropy, LossKind::cross_entropy_expand}) {
    EXPECT_FLOAT_EQ(loss_of(kind, logits, labels).item<float>(), 2.3025851f);
  }
}

TEST(Loss, ExpandedFormIsTheSameWithTheSameGradient) {
  torch::manual_seed(7);
  for (const double smoothing : {0.0, 0.1}) {
    for (const double spread : {0.1, 1.0, 8.0}) {
      const auto a = (torch::randn({64, 10}) * spread).requires_grad_();
      const auto b = a.detach().clone().requires_grad_();
      const auto labels = torch::randint(10, {64}, torch::kLong);
      const auto fused = loss_of(LossKind::cross_entropy, a, labels, smoothing);
      const auto expanded = loss_of(LossKind::cross_entropy_expand, b, labels, smoothing);
      EXPECT_NEAR(fused.item<double>(), expanded.item<double>(), 1e-6 * std::max(1.0, fused.item<double>()));
      fused.backward();
      expanded.backward();
      EXPECT_TRUE(torch::allclose(a.grad(), b.grad(), 0, 1e-6));
    }
  }
}

TEST(Loss, ExpandedFormStaysFiniteWhereProbabilitiesUnderflow) {
  const auto logits = torch::tensor({{0.0f, 500.0f}}).requires_grad_();
  const auto right = loss_of(LossKind::cross_entropy_expand, logits, torch::tensor({1}, torch::kLong));
  EXPECT_EQ(right.item<float>(), 0.0f);
  right.backward();
  EXPECT_TRUE(torch::isfinite(logits.grad()).all().item<bool>());
  const auto wrong = loss_of(LossKind::cross_entropy_expand, logits, torch::tensor({0}, torch::kLong));
  EXPECT_TRUE(std::isfinite(wrong.item<float>()));
}

TEST(Loss, LabelSmoothingIsTheMixtureWithTheUniformTarget) {
  torch::manual_seed(7);
  const auto logits = torch::randn({8, 5}, torch::kDouble);
  const auto labels = torch::randint(5, {8}, torch::kLong);
  const auto log_p = logits.log_softmax(1);
  const auto expected = -(0.8 * log_p.gather(1, labels.unsqueeze(1)).squeeze(1) + 0.2 * log_p.mean(1)).mean();
  for (const auto kind : {LossKind::cross_entropy, LossKind::cross_entropy_expand}) {
    EXPECT_NEAR(loss_of(kind, logits, labels, 0.2).item<double>(), expected.item<double>(), 1e-12);
  }
}

TEST(Loss, IsThatOfLibtorchWithTheSameGradient) {
  namespace F = torch::nn::functional;
  torch::manual_seed(7);
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    const auto a = (torch::randn({32, 10}) * 4).requires_grad_();
    const auto b = a.detach().clone().requires_grad_();
    const auto labels = torch::randint(10, {32}, torch::kLong);
    const auto ours = loss_of(LossKind::cross_entropy, a, labels, smoothing);
    const auto libtorch = F::cross_entropy(b, labels, F::CrossEntropyFuncOptions().label_smoothing(smoothing));
    EXPECT_NEAR(ours.item<double>(), libtorch.item<double>(), 1e-6 * libtorch.item<double>()) << smoothing;
    ours.backward();
    libtorch.backward();
    EXPECT_TRUE(torch::allclose(a.grad(), b.grad(), 0, 1e-6)) << smoothing;
  }
}

ClassificationLoss loss_named(std::string_view name, const std::string& keys) {
  const auto config = parse_config(
      "{model: {name: mlp}, data: {name: mnist, root: x}, optimizer: {lr: 1}, train: {epochs: 1}, loss: {name: " +
          std::string(name) + ", " + keys + "}}",
      "loss.yaml");
  const auto loss = read_run_config(config).loss;
  const auto parts = shipped_parts();
  return find_part(parts.losses, name)->make(loss);
}

TEST(Loss, OfClassesWithWeightsIsTheMeanOfWeightedLosses) {
  torch::manual_seed(7);
  const auto logits = torch::randn({8, 3}, torch::kDouble);
  const auto labels = torch::tensor({0, 1, 2, 0, 1, 2, 0, 0}, torch::kLong);
  const auto weights = torch::tensor({1.0, 4.0, 0.5}, torch::kDouble);
  const auto each = -logits.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
  const auto of_labels = weights.index_select(0, labels);
  EXPECT_NEAR(loss_named("cross_entropy", "class_weights: [1, 4, 0.5]")(logits, labels).item<double>(),
              (each * of_labels).mean().item<double>(), 1e-12);
  EXPECT_EQ(loss_named("cross_entropy", "class_weights: []")(logits, labels).item<double>(),
            loss_of(LossKind::cross_entropy, logits, labels).item<double>());
  const auto p = (-each).exp();
  EXPECT_NEAR(loss_named("focal", "gamma: 2")(logits, labels).item<double>(),
              ((1 - p).square() * each).mean().item<double>(), 1e-12);
  EXPECT_NEAR(loss_named("focal", "gamma: 0.5, class_weights: [1, 4, 0.5]")(logits, labels).item<double>(),
              ((1 - p).sqrt() * each * of_labels).mean().item<double>(), 1e-12);
  expect_error(ErrorKind::config, {"loss.class_weights", "2 numbers", "3 classes"},
               [&] { loss_named("focal", "class_weights: [1, 4]")(logits, labels); });
}

TEST(Loss, OfSharesIsTheLossesOfAllLabelsByTheirShares) {
  torch::manual_seed(7);
  const auto logits = torch::randn({8, 3}, torch::kDouble);
  const auto shares = torch::rand({8, 3}, torch::kDouble).softmax(1);
  const std::string smoothed = "label_smoothing: 0.1";
  for (const auto& [name, keys] :
       std::map<std::string, std::string>{{"cross_entropy", smoothed},
                                          {"cross_entropy_expand", smoothed},
                                          {"focal", smoothed + ", class_weights: [1, 4, 0]"}}) {
    const auto loss = loss_named(name, keys);
    double expected = 0;
    for (std::int64_t n = 0; n < 8; ++n) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const auto of_label = loss(logits.narrow(0, n, 1), torch::tensor({c}, torch::kLong));
        expected += (shares[n][c] * of_label).item<double>() / 8;
      }
    }
    EXPECT_NEAR(loss(logits, shares).item<double>(), expected, 1e-12) << name;
    const auto fewer = shares.narrow(1, 0, 2);
    EXPECT_NEAR(loss(logits, fewer).item<double>(), loss(logits, torch::constant_pad_nd(fewer, {0, 1})).item<double>(),
                1e-12)
        << "classes that are missing have no share";
    if (name == "focal") continue;  // its weights are for three classes
    expect_error(ErrorKind::config, {"model.num_classes", "[8, 3]"}, [&] { loss(logits.narrow(1, 0, 2), shares); });
  }
}

TEST(Loss, OfBfloat16LogitsIsComputedInFloat32) {
  const auto logits = torch::randn({8, 5}).to(torch::kBFloat16);
  const auto labels = torch::randint(5, {8}, torch::kLong);
  const auto loss = loss_of(LossKind::cross_entropy, logits, labels);
  EXPECT_EQ(loss.scalar_type(), torch::kFloat);
  EXPECT_EQ(loss.item<float>(), loss_of(LossKind::cross_entropy, logits.to(torch::kFloat), labels).item<float>());
}

// A module whose gradient is its target's distance, so that updates follow from formulas.
struct Quadratic : torch::nn::Module {
  Quadratic() {
    w = register_parameter("w", torch::tensor({1.0, -2.0}, torch::kDouble));
    frozen = register_parameter("frozen", torch::ones({3}, torch::kDouble), /*requires_grad=*/false);
  }
  void backward() {
    zero_grad();
    (0.5 * w.square().sum()).backward();
  }
  at::Tensor w, frozen;
};

ResolvedRun run_with(std::string optimizer) {
  ResolvedRun run;
  run.optimizer.name = std::move(optimizer);
  run.optimizer.lr = 0.1;
  return run;
}

TEST(Optimizer, MomentumFollowsItsFormula) {
  Quadratic module;
  auto run = run_with("momentum");
  run.optimizer.weight_decay = 0.5;
  const auto optimizer = make_optimizer(run, trainable_parameters(module));
  double w = 1.0, v = 0.0;
  for (int step = 0; step < 5; ++step) {
    module.backward();
    optimizer->step();
    v = 0.9 * v + (w + 0.5 * w);
    w -= 0.1 * v;
    EXPECT_NEAR(module.w[0].item<double>(), w, 1e-12);
  }
  EXPECT_TRUE(torch::equal(module.frozen, torch::ones({3}, torch::kDouble)));
}

TEST(Optimizer, PlainSgdHasNoMomentum) {
  Quadratic module;
  const auto optimizer = make_optimizer(run_with("sgd"), trainable_parameters(module));
  for (int step = 0; step < 2; ++step) {
    module.backward();
    optimizer->step();
  }
  EXPECT_NEAR(module.w[0].item<double>(), 0.81, 1e-12);
  EXPECT_TRUE(optimizer_state(*optimizer, trainable_parameters(module)).empty());
}

TEST(Optimizer, AdamWDecaysApartFromTheGradient) {
  Quadratic module;
  auto run = run_with("adamw");
  run.optimizer.weight_decay = 0.5;
  const auto optimizer = make_optimizer(run, trainable_parameters(module));
  module.backward();
  optimizer->step();
  // After bias correction the first update is lr * sign(gradient); the decay comes before it.
  EXPECT_NEAR(module.w[0].item<double>(), 1.0 * (1 - 0.1 * 0.5) - 0.1, 1e-7);
}

TEST(Optimizer, LearningRateIsSet) {
  Quadratic module;
  const auto optimizer = make_optimizer(run_with("sgd"), trainable_parameters(module));
  set_learning_rate(*optimizer, 0.5);
  module.backward();
  optimizer->step();
  EXPECT_EQ(module.w[0].item<double>(), 0.5);
}

// What the parameters are after `steps` steps.
std::vector<double> trained(const ResolvedRun& run, int steps) {
  Quadratic module;
  const auto optimizer = make_optimizer(run, trainable_parameters(module));
  for (int step = 0; step < steps; ++step) {
    module.backward();
    optimizer->step();
  }
  return {module.w[0].item<double>(), module.w[1].item<double>()};
}

TEST(Optimizer, RmspropFollowsItsFormula) {
  auto run = run_with("rmsprop");
  choose(run.optimizer, "rmsprop", RmspropSettings{.alpha = 0.8, .momentum = 0.5, .centered = true});
  double w = 1.0, square = 0, average = 0, v = 0;
  for (int step = 0; step < 5; ++step) {
    square = 0.8 * square + 0.2 * w * w;
    average = 0.8 * average + 0.2 * w;
    v = 0.5 * v + w / (std::sqrt(square - average * average) + 1e-8);
    w -= 0.1 * v;
  }
  EXPECT_NEAR(trained(run, 5)[0], w, 1e-12);
}

TEST(Optimizer, AdagradFollowsItsFormula) {
  auto run = run_with("adagrad");
  choose(run.optimizer, "adagrad", AdagradSettings{.lr_decay = 0.3, .initial_accumulator = 0.2});
  double w = 1.0, sum = 0.2;
  for (int step = 0; step < 5; ++step) {
    sum += w * w;
    w -= 0.1 / (1 + 0.3 * step) * w / (std::sqrt(sum) + 1e-8);
  }
  EXPECT_NEAR(trained(run, 5)[0], w, 1e-12);
}

double norm(const std::vector<double>& v) { return std::hypot(v[0], v[1]); }

TEST(Optimizer, LarsFollowsItsFormula) {
  auto run = run_with("lars");
  choose(run.optimizer, "lars", LarsSettings{.trust_coefficient = 0.5});
  run.optimizer.weight_decay = 0.25;
  std::vector<double> w{1.0, -2.0}, v{0, 0};
  for (int step = 0; step < 5; ++step) {
    const double ratio = 0.5 * norm(w) / (norm(w) + 0.25 * norm(w) + 1e-8);  // the gradient is w
    for (int i = 0; i < 2; ++i) {
      v[i] = 0.9 * v[i] + ratio * 1.25 * w[i];
      w[i] -= 0.1 * v[i];
    }
  }
  const auto got = trained(run, 5);
  EXPECT_NEAR(got[0], w[0], 1e-12);
  EXPECT_NEAR(got[1], w[1], 1e-12);
}

TEST(Optimizer, LarsWithoutAdaptationIsMomentum) {
  auto run = run_with("lars");
  run.optimizer.weight_decay = 0.25;
  choose(run.optimizer, "lars", LarsSettings{.adapt_1d = false});
  auto momentum = run_with("momentum");
  momentum.optimizer.weight_decay = 0.25;
  EXPECT_EQ(trained(run, 5), trained(momentum, 5));
}

// The largest norm of weights that counts is once above theirs, once below.
TEST(Optimizer, LambFollowsItsFormula) {
  for (const double most : {10.0, 1.5}) {
    auto run = run_with("lamb");
    run.optimizer.weight_decay = 0.25;
    choose(run.optimizer, "lamb", LambSettings{.max_weight_norm = most});
    std::vector<double> w{1.0, -2.0}, m{0, 0}, v{0, 0};
    for (int step = 1; step <= 5; ++step) {
      std::vector<double> u(2);
      for (int i = 0; i < 2; ++i) {
        m[i] = 0.9 * m[i] + 0.1 * w[i];
        v[i] = 0.999 * v[i] + 0.001 * w[i] * w[i];
        u[i] = m[i] / (1 - std::pow(0.9, step)) / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8) + 0.25 * w[i];
      }
      const double ratio = std::min(norm(w), most) / norm(u);
      for (int i = 0; i < 2; ++i) w[i] -= 0.1 * ratio * u[i];
    }
    const auto got = trained(run, 5);
    EXPECT_NEAR(got[0], w[0], 1e-12) << most;
    EXPECT_NEAR(got[1], w[1], 1e-12) << most;
  }
}

TEST(Optimizer, LambWithoutAdaptationIsAdamWithoutDecay) {
  auto run = run_with("lamb");
  choose(run.optimizer, "lamb", LambSettings{.adapt_1d = false});
  const auto got = trained(run, 5);
  const auto adam = trained(run_with("adam"), 5);
  EXPECT_NEAR(got[0], adam[0], 1e-12);
  EXPECT_NEAR(got[1], adam[1], 1e-12);
}

// A new bias is zero: its update is not.
TEST(Optimizer, TrustRatiosOfZerosAreOne) {
  for (const auto* name : {"lars", "lamb"}) {
    const auto weight = torch::zeros({2, 2}).requires_grad_();
    const auto optimizer = make_optimizer(run_with(name), {{"weight", weight}});
    weight.mutable_grad() = torch::zeros({2, 2});
    optimizer->step();
    EXPECT_TRUE(torch::equal(weight, torch::zeros({2, 2}))) << name;
    weight.mutable_grad() = torch::ones({2, 2});
    optimizer->step();
    EXPECT_TRUE((weight < 0).all().item<bool>()) << name;
    EXPECT_TRUE(torch::isfinite(weight).all().item<bool>()) << name;
  }
}

/// optimizer.groups of muon.
ConfigNode only_adamw(const std::string& matrix) {
  const auto text = "groups: [{match: " + matrix + ", name: muon, orthogonalize: false}]";
  return parse_config(text, "groups.yaml").root.entries.front().value;
}

TEST(Optimizer, MuonMakesUpdatesOfMatricesOrthogonal) {
  torch::manual_seed(3);
  for (const auto& [rows, columns] : {std::pair{6, 20}, std::pair{20, 6}}) {
    const auto weight = torch::zeros({rows, columns}).requires_grad_();
    auto run = run_with("muon");
    run.optimizer.lr = 1;
    const auto optimizer = make_optimizer(run, {{"weight", weight}});
    weight.mutable_grad() = torch::randn({rows, columns});
    optimizer->step();
    const auto values = torch::linalg_svdvals(weight.detach() / std::sqrt(std::max(1.0, double(rows) / columns)));
    EXPECT_GT(values.min().item<float>(), 0.6f);
    EXPECT_LT(values.max().item<float>(), 1.3f);
    EXPECT_LT((weight.detach() * weight.grad()).sum().item<float>(), 0);
  }
}

// Vectors, and the matrices of groups that say so.
TEST(Optimizer, MuonUpdatesOtherParametersAsAdamW) {
  torch::manual_seed(3);
  const auto start_matrix = torch::randn({4, 3}), start_vector = torch::randn({5});
  const auto trained = [&](ResolvedRun run) {
    const auto matrix = start_matrix.clone().requires_grad_(), vector = start_vector.clone().requires_grad_();
    run.optimizer.weight_decay = 0.1;
    const auto optimizer = make_optimizer(run, {{"embedding", matrix}, {"bias", vector}});
    for (int step = 0; step < 5; ++step) {
      matrix.mutable_grad() = matrix.detach() * 0.3;
      vector.mutable_grad() = vector.detach() * 0.3;
      optimizer->step();
    }
    return std::pair{matrix.detach(), vector.detach()};
  };
  auto muon = run_with("muon");
  muon.optimizer.groups = only_adamw("embedding");
  const auto got = trained(muon), expected = trained(run_with("adamw"));
  EXPECT_TRUE(torch::allclose(got.first, expected.first, 1e-6, 1e-7));
  EXPECT_TRUE(torch::allclose(got.second, expected.second, 1e-6, 1e-7));
}

/// An optimizer of a program's own, with a state that no other class has.
class Drifts : public torch::optim::Optimizer {
 public:
  explicit Drifts(const std::vector<at::Tensor>& parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(parameters)}, std::make_unique<torch::optim::SGDOptions>(0.1)) {}

  torch::Tensor step(LossClosure) override {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : param_groups().front().params()) parameter.sub_(++drift);
    return {};
  }

  double drift = 0;
};

/// The same, and its state can be saved.
class SavedDrifts final : public Drifts, public OptimizerMemory {
 public:
  using Drifts::Drifts;

  std::vector<std::string> remembered_tensors() const override { return {"drift"}; }
  NamedTensors memory_of(const at::Tensor& parameter) const override {
    return {{"drift", torch::full_like(parameter, drift)}};
  }
  void load_memory_of(const at::Tensor&, NamedTensors& saved) override {
    const auto found = saved.find("drift");
    if (found == saved.end()) return;
    drift = found->second.max().item<double>();
    saved.erase(found);
  }
};

template <typename Class>
ResolvedRun run_with_part() {
  auto parts = shipped_parts();
  parts.optimizers.push_back({.name = "own",
                              .make = [](const std::vector<at::Tensor>& parameters,
                                         const OptimizerConfig&) -> std::unique_ptr<torch::optim::Optimizer> {
                                return std::make_unique<Class>(parameters);
                              },
                              .elementwise = true});
  auto run = run_with("own");
  run.parts = std::make_shared<const Parts>(std::move(parts));
  return run;
}

// Its state would be missing in checkpoints, of whole parameters as of pieces.
TEST(OptimizerState, OfAnUnknownClassIsRefusedBeforeTraining) {
  Quadratic module;
  const auto parameters = trainable_parameters(module);
  const std::initializer_list<std::string_view> words = {"Drifts", "OptimizerMemory"};
  expect_error(ErrorKind::unsupported, words, [&] { make_optimizer(run_with_part<Drifts>(), parameters); });
  expect_error(ErrorKind::unsupported, words, [&] {
    make_optimizer(run_with_part<Drifts>(), parameters, {torch::zeros({1}), torch::zeros({1})}, {0, 0});
  });
}

TEST(OptimizerState, IsCarriedByAClassOfItsOwn) {
  Quadratic module;
  const auto parameters = trainable_parameters(module);
  const auto optimizer = make_optimizer(run_with_part<SavedDrifts>(), parameters);
  optimizer->step();
  EXPECT_EQ(remembered_tensors(*optimizer), std::vector<std::string>{"drift"});
  const auto state = optimizer_state(*optimizer, parameters);
  const auto resumed = make_optimizer(run_with_part<SavedDrifts>(), parameters);
  load_optimizer_state(*resumed, parameters, state);
  EXPECT_EQ(sha256_of(optimizer_state(*resumed, parameters)), sha256_of(state));
  expect_error(ErrorKind::data, {"w.momentum_buffer", "no place"}, [&] {
    load_optimizer_state(*resumed, parameters, {{"w.momentum_buffer", torch::zeros({2})}});
  });
}

// A matrix that was AdamW's has its moments in the checkpoint, and no momentum.
TEST(OptimizerState, OfMuonIsThatOfItsGroup) {
  const NamedParameters parameters{{"weight", torch::ones({2, 2}).requires_grad_()}};
  auto run = run_with("muon");
  const auto muon = make_optimizer(run, parameters);
  run.optimizer.groups = only_adamw("weight");
  const auto adamw = make_optimizer(run, parameters);
  parameters.front().second.mutable_grad() = torch::ones({2, 2});
  adamw->step();
  const auto state = optimizer_state(*adamw, parameters);
  EXPECT_TRUE(state.contains("weight.exp_avg"));
  expect_error(ErrorKind::data, {"weight.exp_avg", "no place"},
               [&] { load_optimizer_state(*muon, parameters, state); });
}

// Momentum that a run turns on when it goes on begins at zero.
TEST(OptimizerState, OfRmspropMayLackWhatIsNew) {
  Quadratic module;
  auto run = run_with("rmsprop");
  const auto before = make_optimizer(run, trainable_parameters(module));
  module.backward();
  before->step();
  const auto state = optimizer_state(*before, trainable_parameters(module));
  choose(run.optimizer, "rmsprop", RmspropSettings{.momentum = 0.9, .centered = true});
  const auto after = make_optimizer(run, trainable_parameters(module));
  load_optimizer_state(*after, trainable_parameters(module), state);
  const auto loaded = optimizer_state(*after, trainable_parameters(module));
  EXPECT_TRUE(torch::equal(loaded.at("w.momentum_buffer"), torch::zeros({2}, torch::kDouble)));
  EXPECT_TRUE(torch::equal(loaded.at("w.square_avg"), state.at("w.square_avg")));
  after->step();
}

TEST(OptimizerState, OfAdagradIsNoneBeforeTheFirstUpdate) {
  Quadratic module;
  const auto optimizer = make_optimizer(run_with("adagrad"), trainable_parameters(module));
  EXPECT_TRUE(optimizer_state(*optimizer, trainable_parameters(module)).empty());
}

class GoesOn : public testing::TestWithParam<const char*> {};

TEST_P(GoesOn, BitForBit) {
  const auto run = run_with(GetParam());
  const auto steps = [](torch::optim::Optimizer& optimizer, Quadratic& module) {
    for (int step = 0; step < 3; ++step) {
      module.backward();
      optimizer.step();
    }
  };
  Quadratic first;
  const auto optimizer = make_optimizer(run, trainable_parameters(first));
  steps(*optimizer, first);

  Quadratic second;
  load_module_state(second, module_state(first));
  const auto resumed = make_optimizer(run, trainable_parameters(second));
  load_optimizer_state(*resumed, trainable_parameters(second),
                       optimizer_state(*optimizer, trainable_parameters(first)));
  steps(*optimizer, first);
  steps(*resumed, second);
  EXPECT_TRUE(torch::equal(first.w, second.w));
  EXPECT_EQ(sha256_of(optimizer_state(*optimizer, trainable_parameters(first))),
            sha256_of(optimizer_state(*resumed, trainable_parameters(second))));
}

INSTANTIATE_TEST_SUITE_P(All, GoesOn,
                         testing::Values("sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb",
                                         "muon"),
                         [](const auto& each) { return std::string(each.param); });

TEST(OptimizerStateErrors, NameWhatDoesNotFit) {
  Quadratic module;
  const auto optimizer = make_optimizer(run_with("momentum"), trainable_parameters(module));
  expect_error(ErrorKind::data, {"w.momentum_buffer", "3", "2"}, [&] {
    load_optimizer_state(*optimizer, trainable_parameters(module), {{"w.momentum_buffer", torch::zeros({3})}});
  });
  expect_error(ErrorKind::data, {"v.momentum_buffer", "no place"}, [&] {
    load_optimizer_state(*optimizer, trainable_parameters(module), {{"v.momentum_buffer", torch::zeros({2})}});
  });
}

TEST(ModuleState, ErrorsNameTheTensor) {
  Quadratic module;
  auto state = module_state(module);
  state["w"] = torch::zeros({2}, torch::kFloat);
  expect_error(ErrorKind::data, {"w", "Float [2]", "Double [2]"}, [&] { load_module_state(module, state); });
  state.erase("w");
  expect_error(ErrorKind::data, {"w"}, [&] { load_module_state(module, state); });
  state = module_state(module);
  state["extra"] = torch::zeros({1});
  expect_error(ErrorKind::data, {"extra"}, [&] { load_module_state(module, state); });
}

TEST(Hash, IsOfNamesTypesShapesAndBytesInTheOrderOfNames) {
  // printf 'a Float [2]\n\x00\x00\x80\x3f\x00\x00\x00\x40b Long []\n\x05\0\0\0\0\0\0\0' | sha256sum
  const NamedTensors tensors{{"b", torch::tensor(5, torch::kLong)}, {"a", torch::tensor({1.0f, 2.0f})}};
  EXPECT_EQ(sha256_of(tensors), "ff127627069d2b11ead9decde47a3677dd48e139a0ef383b4221c68f527920c3");
  auto changed = tensors;
  changed["a"] = torch::tensor({1.0f, -2.0f});
  EXPECT_NE(sha256_of(changed), sha256_of(tensors));
  changed["a"] = torch::tensor({{1.0f, 2.0f}});
  EXPECT_NE(sha256_of(changed), sha256_of(tensors));
}

TEST(Hash, DoesNotDependOnStrides) {
  const auto matrix = torch::arange(6, torch::kFloat).reshape({2, 3});
  const auto turned = matrix.t().contiguous().t();
  ASSERT_FALSE(turned.is_contiguous());
  EXPECT_EQ(sha256_of({{"m", matrix}}), sha256_of({{"m", turned}}));
}

}  // namespace
}  // namespace lockstep::train
