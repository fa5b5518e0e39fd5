// Losses and optimizers against their formulas, and their state.
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/tasks/classification.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

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

std::vector<at::Tensor> tensors_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, parameter] : trainable_parameters(module)) tensors.push_back(parameter);
  return tensors;
}

OptimizerConfig optimizer_config(std::string name) {
  OptimizerConfig config;
  config.name = std::move(name);
  config.lr = 0.1;
  return config;
}

TEST(Optimizer, MomentumFollowsItsFormula) {
  Quadratic module;
  auto config = optimizer_config("momentum");
  config.weight_decay = 0.5;
  const auto optimizer = make_optimizer(config, tensors_of(module));
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
  const auto optimizer = make_optimizer(optimizer_config("sgd"), tensors_of(module));
  for (int step = 0; step < 2; ++step) {
    module.backward();
    optimizer->step();
  }
  EXPECT_NEAR(module.w[0].item<double>(), 0.81, 1e-12);
  EXPECT_TRUE(optimizer_state(*optimizer, trainable_parameters(module)).empty());
}

TEST(Optimizer, AdamWDecaysApartFromTheGradient) {
  Quadratic module;
  auto config = optimizer_config("adamw");
  config.weight_decay = 0.5;
  const auto optimizer = make_optimizer(config, tensors_of(module));
  module.backward();
  optimizer->step();
  // After bias correction the first update is lr * sign(gradient); the decay comes before it.
  EXPECT_NEAR(module.w[0].item<double>(), 1.0 * (1 - 0.1 * 0.5) - 0.1, 1e-7);
}

TEST(Optimizer, LearningRateIsSet) {
  Quadratic module;
  const auto optimizer = make_optimizer(optimizer_config("sgd"), tensors_of(module));
  set_learning_rate(*optimizer, 0.5);
  module.backward();
  optimizer->step();
  EXPECT_EQ(module.w[0].item<double>(), 0.5);
}

class OptimizerState : public testing::TestWithParam<const char*> {};

TEST_P(OptimizerState, GoesOnBitForBit) {
  const auto config = optimizer_config(GetParam());
  const auto steps = [](torch::optim::Optimizer& optimizer, Quadratic& module) {
    for (int step = 0; step < 3; ++step) {
      module.backward();
      optimizer.step();
    }
  };
  Quadratic first;
  const auto optimizer = make_optimizer(config, tensors_of(first));
  steps(*optimizer, first);

  Quadratic second;
  load_module_state(second, module_state(first));
  const auto resumed = make_optimizer(config, tensors_of(second));
  load_optimizer_state(*resumed, trainable_parameters(second),
                       optimizer_state(*optimizer, trainable_parameters(first)));
  steps(*optimizer, first);
  steps(*resumed, second);
  EXPECT_TRUE(torch::equal(first.w, second.w));
  EXPECT_EQ(sha256_of(optimizer_state(*optimizer, trainable_parameters(first))),
            sha256_of(optimizer_state(*resumed, trainable_parameters(second))));
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerState, testing::Values("sgd", "momentum", "adam", "adamw"),
                         [](const auto& each) { return std::string(each.param); });

TEST(OptimizerStateErrors, NameWhatDoesNotFit) {
  Quadratic module;
  const auto optimizer = make_optimizer(optimizer_config("momentum"), tensors_of(module));
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
