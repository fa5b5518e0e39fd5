// The networks of CRNN: sizes, columns, precision. tests/parity compares them with Python's.
#include <lockstep/ocr/recognition/crnn.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t parameters_of(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

const ocr::CrnnOptions kSmall{.num_classes = 5, .channels = 4, .hidden = 8};

TEST(CrnnModels, HaveThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of(*ocr::crnn_resnet34({})), 24'481'029);
  EXPECT_EQ(parameters_of(*ocr::crnn_vgg7({})), 8'725'413);
}

TEST(CrnnModels, MakeAColumnOfFourPixels) {
  EXPECT_EQ(ocr::crnn_resnet34(kSmall)->forward(torch::randn({2, 3, 32, 100})).sizes(), (Sizes{25, 2, 5}));
  EXPECT_EQ(ocr::crnn_resnet34(kSmall)->forward(torch::randn({2, 3, 32, 320})).sizes(), (Sizes{80, 2, 5}));
  EXPECT_EQ(ocr::crnn_vgg7(kSmall)->forward(torch::randn({2, 3, 32, 100})).sizes(), (Sizes{24, 2, 5}));
}

TEST(CrnnModels, SayWhichPicturesTheyRead) {
  const auto model = ocr::crnn_resnet34(kSmall);
  expect_error(ErrorKind::config, {"data.train_transforms", "64 high", "size: [32, 100]"}, [&] {
    model->forward(torch::randn({2, 3, 64, 100}));
  });
  expect_error(ErrorKind::config, {"[2, 1, 32, 100]", "data.color=rgb"}, [&] {
    model->forward(torch::randn({2, 1, 32, 100}));
  });
  expect_error(ErrorKind::config, {"normalize"}, [&] { model->forward(torch::zeros({2, 3, 32, 100}, torch::kByte)); });
}

// Its weights are truncated at two deviations.
TEST(CrnnModels, Vgg7StartsSmall) {
  torch::manual_seed(1);
  const auto weights = ocr::crnn_vgg7({})->named_parameters()["backbone.conv6.weight"];
  EXPECT_LE(weights.abs().max().item<double>(), 0.04);
  EXPECT_NEAR(weights.std().item<double>(), 0.0176, 0.0002);  // of a normal distribution cut at two deviations: 0.88
}

}  // namespace
}  // namespace lockstep::test
