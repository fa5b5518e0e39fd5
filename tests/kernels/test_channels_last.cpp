#include <lockstep/kernels/channels_last.h>
#include <lockstep/models/registry.h>

#include "support/operators_run.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

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
    EXPECT_TRUE(after[i].dim() != 4 || after[i].is_contiguous(at::MemoryFormat::ChannelsLast)) << names[i];
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

TEST(ChannelsLast, MakesLateConvolutionsProductsOfMatrices) {
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(256, 256, 3).padding(1)));
  const auto pictures = at::randn({4, 256, 2, 2}).requires_grad_();
  const auto step = [&] {
    net->zero_grad(/*set_to_none=*/true);
    net->forward(pictures).square().sum().backward();
  };
  EXPECT_EQ(test::operators_run(step).count("aten::mm"), 0);
  to_channels_last(*net);
  EXPECT_GT(test::operators_run(step).count("aten::mm"), 0);
  EXPECT_EQ(test::operators_run(step).count("aten::mkldnn_convolution"), 0);
  // More positions: oneDNN's again.
  const auto many = at::randn({4, 256, 16, 16});
  EXPECT_EQ(test::operators_run([&] { net->forward(many); }).count("aten::mkldnn_convolution"), 1);
}

TEST(ChannelsLast, HasSecondDerivatives) {
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(256, 256, 1).bias(false));
  convolution->to(at::kDouble);
  const auto pictures = at::randn({4, 256, 2, 2}, at::kDouble).requires_grad_();
  const auto twice = [&] {
    const auto first = torch::autograd::grad({convolution->forward(pictures).pow(3).sum()}, {pictures}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum()}, {convolution->weight})[0];
  };
  const auto before = twice();
  to_channels_last(*convolution);
  EXPECT_TRUE(at::allclose(twice(), before, 1e-9, 1e-6));
}

}  // namespace
}  // namespace lockstep
