// The updates that are a few kernels, against libtorch's own step(). They exist for CPUs as well, where the recorded
// form is called directly, as `update` itself takes them on devices only.
#include <lockstep/compat/fused_updates.h>
#include <lockstep/kernels/step_graph.h>
#include <lockstep/kernels/tuning.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

namespace optim = torch::optim;

/// Two equal lists of parameters; the last never gets a gradient.
struct Twins {
  std::vector<at::Tensor> one, other;

  Twins() {
    torch::manual_seed(3);
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{5, 7}, {3}, {2, 3, 4, 4}, {6}}) {
      one.push_back(torch::randn(sizes));
      other.push_back(one.back().clone());
    }
    one[2] = one[2].contiguous(at::MemoryFormat::ChannelsLast);
    other[2] = other[2].contiguous(at::MemoryFormat::ChannelsLast);
    for (auto* list : {&one, &other}) {
      for (auto& parameter : *list) parameter.set_requires_grad(true);
    }
  }

  void give_gradients(int step) {
    torch::manual_seed(static_cast<std::uint64_t>(100 + step));
    for (std::size_t i = 0; i + 1 < one.size(); ++i) {
      one[i].mutable_grad() = torch::randn_like(one[i]);
      other[i].mutable_grad() = one[i].grad().clone();
    }
  }
};

template <typename Optimizer, typename Options>
void expect_recorded_equals_step(const Options& options) {
  if (!compat::kFusedUpdates) GTEST_SKIP() << "this libtorch has no fused updates (2.4 and newer have)";
  Twins twins;
  Optimizer expected(twins.one, options), optimizer(twins.other, options);
  detail::RecordedUpdate recorded(optimizer);
  for (int step = 0; step < 5; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    twins.give_gradients(step);
    for (auto* each : std::initializer_list<optim::Optimizer*>{&expected, &optimizer}) {
      each->param_groups()[0].options().set_lr(0.1 / (1 + step));
    }
    expected.step();
    recorded.take_rates();
    if (step == 3) {
      optimizer.step();
      recorded.follow_other();
    } else {
      recorded.run();
      recorded.count();
    }
    for (std::size_t i = 0; i < twins.one.size(); ++i) {
      EXPECT_TRUE(at::allclose(twins.other[i], twins.one[i], 1e-5, 1e-6)) << "parameter " << i;
    }
  }
  EXPECT_EQ(optimizer.state().size(), expected.state().size());
}

TEST(OptimizerUpdate, RecordedSgd) {
  expect_recorded_equals_step<optim::SGD>(optim::SGDOptions(0.1).weight_decay(0.01));
}
TEST(OptimizerUpdate, RecordedMomentum) {
  expect_recorded_equals_step<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).dampening(0.1).weight_decay(0.01));
}
TEST(OptimizerUpdate, RecordedNesterov) {
  expect_recorded_equals_step<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true));
}
TEST(OptimizerUpdate, RecordedAdam) {
  expect_recorded_equals_step<optim::Adam>(optim::AdamOptions(0.1).weight_decay(0.01));
}
TEST(OptimizerUpdate, RecordedAdamW) {
  expect_recorded_equals_step<optim::AdamW>(optim::AdamWOptions(0.1).betas({0.8, 0.99}));
}

TEST(OptimizerUpdate, OnTheCpuItIsStepBitForBit) {
  Twins twins;
  const auto options = optim::SGDOptions(0.1).momentum(0.9);
  optim::SGD expected(twins.one, options), optimizer(twins.other, options);
  EXPECT_TRUE(why_no_fused_update(optimizer));
  for (int step = 0; step < 3; ++step) {
    twins.give_gradients(step);
    expected.step();
    update(optimizer);
  }
  for (std::size_t i = 0; i < twins.one.size(); ++i) EXPECT_TRUE(torch::equal(twins.other[i], twins.one[i]));
}

TEST(OptimizerUpdate, SaysWhyNot) {
  if (!compat::kFusedUpdates) GTEST_SKIP() << "this libtorch has no fused updates (2.4 and newer have)";
  const std::vector<at::Tensor> parameters = {torch::zeros({2})};
  const auto why = [](const optim::Optimizer& optimizer) { return why_no_fused_update(optimizer).value_or("nothing"); };
  EXPECT_EQ(why(optim::SGD(parameters, 0.1)), "a parameter is not on a CUDA device");
  EXPECT_EQ(why(optim::Adam(parameters, optim::AdamOptions().amsgrad(true))), "the optimizer uses amsgrad");
  EXPECT_EQ(why(optim::RMSprop(parameters)), "the optimizer is none of SGD, Adam and AdamW");
}

}  // namespace
}  // namespace lockstep
