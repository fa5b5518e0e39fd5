#include <lockstep/base/error.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/models/registry.h>

#include "support/operators_run.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <memory>

namespace lockstep {
namespace {

models::Classifier resnet18() {
  models::ModelSpec spec;
  spec.name = "resnet18";
  spec.num_classes = 10;
  return models::make_classifier(spec);
}

TEST(ChannelsLast, KeepsSizesNamesAndNumbers) {
  const auto model = resnet18();
  const auto names = model.module->named_parameters().keys();
  std::vector<at::Tensor> before;
  for (const auto& parameter : model.module->parameters()) before.push_back(parameter.detach().clone());
  to_channels_last(*model.module);
  EXPECT_EQ(model.module->named_parameters().keys(), names);
  const auto after = model.module->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(at::equal(after[i], before[i])) << names[i];
    EXPECT_TRUE(after[i].dim() != 4 || after[i].suggest_memory_format() == at::MemoryFormat::ChannelsLast) << names[i];
    EXPECT_TRUE(after[i].requires_grad());
  }
}

TEST(ChannelsLast, TrainsAResNetToTheSameNumbers) {
  torch::manual_seed(3);
  const auto usual = resnet18();
  const auto last = resnet18();
  usual.module->to(at::kDouble);
  last.module->to(at::kDouble);
  {
    const torch::NoGradGuard no_grad;
    auto to = last.module->parameters();
    const auto from = usual.module->parameters();
    for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  }
  to_channels_last(*last.module);
  const auto pictures = at::randn({4, 3, 32, 32}, at::kDouble);
  const auto loss = [&](const models::Classifier& model) { return model.forward(pictures).square().mean(); };
  const auto of_usual = loss(usual);
  const auto of_last = loss(last);
  EXPECT_NEAR(of_last.item<double>() / of_usual.item<double>(), 1, 1e-9);
  of_usual.backward();
  of_last.backward();
  const auto names = usual.module->named_parameters().keys();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto expected = usual.module->parameters()[i].grad();
    const auto difference = (last.module->parameters()[i].grad() - expected).abs().max().item<double>();
    EXPECT_LE(difference, 1e-8 * (1 + expected.abs().max().item<double>())) << names[i];
  }
}

torch::nn::Conv2d late_convolution() { return torch::nn::Conv2d(torch::nn::Conv2dOptions(256, 256, 3).padding(1)); }

struct Counts {
  std::size_t forward = 0;
  std::size_t backward = 0;
};

/// Products of matrices in a step.
Counts products_of(torch::nn::Conv2d& convolution, const at::Tensor& pictures) {
  convolution->zero_grad(/*set_to_none=*/true);
  at::Tensor loss;
  const auto forward = test::operators_run([&] { loss = convolution->forward(pictures).square().sum(); });
  const auto backward = test::operators_run([&] { loss.backward(); });
  return {forward.count("aten::mm"), backward.count("aten::mm")};
}

TEST(ChannelsLast, MakesLateConvolutionsProductsOfMatrices) {
  auto convolution = late_convolution();
  to_channels_last(*convolution);
  const auto late = products_of(convolution, at::randn({4, 256, 2, 2}).requires_grad_());
  EXPECT_GT(late.forward, 0);
  EXPECT_GT(late.backward, 0);
  const auto early = products_of(convolution, at::randn({4, 256, 16, 16}).requires_grad_());
  EXPECT_EQ(early.forward + early.backward, 0) << "many positions";
}

TEST(ChannelsLast, AlsoBeginsWithA1x1Convolution) {
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(256, 256, 1).bias(false));
  to_channels_last(*convolution);
  EXPECT_EQ(convolution->weight.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(convolution->forward(at::randn({4, 256, 2, 2})).suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(to_channels_last(at::randn({4, 1, 28, 28})).suggest_memory_format(), at::MemoryFormat::ChannelsLast);
}

TEST(ChannelsLast, IsTurnedOffByTheEnvironment) {
  constexpr auto kVariable = "LOCKSTEP_MATRIX_CONVOLUTIONS";
  const std::shared_ptr<void> as_before(nullptr, [](void*) { ::unsetenv(kVariable); });
  auto convolution = late_convolution();
  const auto pictures = at::randn({4, 256, 2, 2}).requires_grad_();
  ::setenv(kVariable, "0", 1);
  to_channels_last(*convolution);
  const auto off = products_of(convolution, pictures);
  EXPECT_EQ(off.forward + off.backward, 0);
  ::setenv(kVariable, "1", 1);
  to_channels_last(*convolution);
  EXPECT_GT(products_of(convolution, pictures).forward, 0);
  ::setenv(kVariable, "yes", 1);
  EXPECT_THROW(to_channels_last(*convolution), Error);
}

TEST(ChannelsLast, RefusesWhatIsNotABatchOfPictures) { EXPECT_THROW(to_channels_last(at::randn({3, 32, 32})), Error); }

// libtorch refuses a bias of another size; products would spread it.
TEST(ChannelsLast, LeavesMistakesToLibtorch) {
  auto convolution = late_convolution();
  to_channels_last(*convolution);
  convolution->bias.set_data(torch::zeros({1}));
  EXPECT_THROW(convolution->forward(at::randn({4, 256, 2, 2})), c10::Error);
}

TEST(ChannelsLast, StaysInFloat32UnderAutocast) {
  auto convolution = late_convolution();
  to_channels_last(*convolution);
  const auto pictures = at::randn({4, 256, 2, 2}).requires_grad_();
  const auto gradient = [&](bool autocast) {
    convolution->zero_grad(/*set_to_none=*/true);
    const auto loss = convolution->forward(pictures).square().sum();
    c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, !autocast);  // the same in every libtorch
    loss.backward();
    c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, true);
    return convolution->weight.grad().clone();
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
}

TEST(ChannelsLast, HasSecondDerivatives) {
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(256, 256, 1).bias(false));
  convolution->to(at::kDouble);
  const auto pictures = at::randn({4, 256, 2, 2}, at::kDouble).requires_grad_();
  at::Tensor second;
  const auto twice = [&] {
    const auto first = torch::autograd::grad({convolution->forward(pictures).pow(3).sum()}, {pictures}, {}, true, true);
    second = torch::autograd::grad({first[0].square().sum()}, {convolution->weight})[0];
  };
  twice();
  const auto expected = second;
  to_channels_last(*convolution);
  EXPECT_GT(test::operators_run(twice).count("aten::mm"), 0);
  EXPECT_TRUE(at::allclose(second, expected, 1e-9, 1e-6));
}

}  // namespace
}  // namespace lockstep
