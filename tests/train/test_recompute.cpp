// Activation checkpointing: the same gradients with it as without, and no activations between forward and backward.
#include <lockstep/kernels/tuning.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

namespace lockstep::test {
namespace {

struct Block : torch::nn::Module, Recomputable {
  Block() : first(8, 32), second(32, 8), dropout(0.5) {
    register_module("first", first), register_module("second", second), register_module("dropout", dropout);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return recomputed(*this, x, [this](const torch::Tensor& in) {
      ++calls;
      const auto hidden = torch::tanh(first(in));
      activation = hidden.storage().getWeakStorageImpl();
      return in + second(dropout(hidden));
    });
  }
  torch::nn::Linear first, second;
  torch::nn::Dropout dropout;
  int calls = 0;
  /// The memory of `hidden`: others keep tensors of their own in it.
  c10::weak_intrusive_ptr<c10::StorageImpl> activation{c10::intrusive_ptr<c10::StorageImpl>()};
};

struct Result {
  std::vector<torch::Tensor> gradients;
  bool kept = false;
  int calls = 0;
};

Result result_of(bool recompute, bool input_has_gradient) {
  torch::manual_seed(5);
  const auto block = std::make_shared<Block>();
  block->set_recomputed(recompute);
  auto x = torch::randn({4, 8}).requires_grad_(input_has_gradient);
  const auto y = block->forward(x);
  Result result{.gradients = {}, .kept = !block->activation.expired()};
  torch::randn({3});  // numbers that others draw before backward
  y.square().sum().backward();
  result.calls = block->calls;
  for (const auto& parameter : block->parameters()) result.gradients.push_back(parameter.grad());
  result.gradients.push_back(input_has_gradient ? x.grad() : torch::zeros({1}));
  result.gradients.push_back(torch::randn({3}));  // the generator goes on as if nothing had been drawn again
  return result;
}

TEST(Recompute, GivesTheSameGradientsWithoutKeepingActivations) {
  for (const bool input_has_gradient : {true, false}) {
    const auto plain = result_of(false, input_has_gradient);
    const auto again = result_of(true, input_has_gradient);
    EXPECT_TRUE(plain.kept);
    EXPECT_FALSE(again.kept);
    EXPECT_EQ(plain.calls, 1);
    EXPECT_EQ(again.calls, 2);
    ASSERT_EQ(plain.gradients.size(), again.gradients.size());
    for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
      EXPECT_TRUE(torch::equal(plain.gradients[i], again.gradients[i])) << i;
    }
  }
}

TEST(Recompute, CostsNothingWithoutGradients) {
  const auto block = std::make_shared<Block>();
  block->set_recomputed(true);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(block->forward(torch::randn({4, 8})).requires_grad());
  EXPECT_EQ(block->calls, 1);
}

}  // namespace
}  // namespace lockstep::test
