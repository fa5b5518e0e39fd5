// The networks of CRNN: sizes, columns, precision. tests/parity compares them with Python's.
#include <apps/ocr/recognition/crnn.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/named_tensors.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "state/pth/made_mindspore.h"

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

/// Writes a model as MindOCR would, whose name of a tensor is `theirs`, and reads it into another one.
void expect_read_from_mindocr(torch::nn::Module& trained, torch::nn::Module& model,
                              const std::function<std::string(std::string)>& theirs) {
  const TemporaryFolder folder;
  std::string file;
  for (const auto& [name, tensor] : train::module_state(trained)) {
    if (name.ends_with("num_batches_tracked")) continue;
    const torch::NoGradGuard no_grad;
    at::Tensor(tensor).uniform_();
    const std::vector<std::uint64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
    file +=
        mindspore_value(theirs(name), sizes, "Float32", {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()});
  }
  const auto path = folder.path() / "crnn.ckpt";
  std::ofstream(path, std::ios::binary) << file;
  train::load_weights(model, path);
  const auto state = train::module_state(model);
  for (const auto& [name, tensor] : train::module_state(trained)) {
    EXPECT_TRUE(torch::equal(tensor, state.at(name))) << name;
  }
}

void replace(std::string& name, const std::string& ours, const std::string& theirs) {
  if (const auto at = name.find(ours); at != std::string::npos) name.replace(at, ours.size(), theirs);
}

void name_norm(std::string& name) {
  replace(name, ".running_mean", ".moving_mean");
  replace(name, ".running_var", ".moving_variance");
  replace(name, ".weight", ".gamma");
  replace(name, ".bias", ".beta");
}

TEST(CrnnModels, ReadMindocrsWeights) {
  const auto outside = [](std::string& name) {
    replace(name, "lstm.", "neck.seq_encoder.");
    if (name.starts_with("head.")) replace(name, "head.", "head.dense1.");
  };
  expect_read_from_mindocr(*ocr::crnn_vgg7(kSmall), *ocr::crnn_vgg7(kSmall), [&](std::string name) {
    outside(name);
    for (int i = 1; i <= 7; ++i) {
      const auto number = std::to_string(i);
      replace(name, "backbone.conv" + number + ".", "backbone.conv" + number + ".conv.");
      if (name.find("bn" + number + ".") != std::string::npos) name_norm(name);
      replace(name, "backbone.bn" + number + ".", "backbone.conv" + number + ".bn.");
    }
    return name;
  });
  expect_read_from_mindocr(*ocr::crnn_resnet34(kSmall), *ocr::crnn_resnet34(kSmall), [&](std::string name) {
    outside(name);
    const bool first_stage = name.find("layer1.") != std::string::npos;
    const auto norm_of_shortcut = first_stage ? "downsample.1." : "downsample.2.";
    if (name.find("bn") != std::string::npos || name.find(norm_of_shortcut) != std::string::npos) name_norm(name);
    int block = 0;
    for (int stage = 1; stage <= 4; ++stage) {
      for (int i = 0; i < std::vector<int>{3, 4, 6, 3}[static_cast<std::size_t>(stage - 1)]; ++i, ++block) {
        replace(name, "layer" + std::to_string(stage) + "." + std::to_string(i) + ".",
                "block_list." + std::to_string(block) + ".");
      }
    }
    if (name.find("block_list") == std::string::npos) {
      for (const auto* number : {"1", "2", "3"}) {
        replace(name, std::string("backbone.conv") + number + ".", std::string("backbone.conv1_") + number + ".conv.");
        replace(name, std::string("backbone.bn") + number + ".", std::string("backbone.conv1_") + number + ".norm.");
      }
      return name;
    }
    replace(name, norm_of_shortcut, "short.norm.");
    replace(name, first_stage ? "downsample.0." : "downsample.1.", "short.conv.");
    replace(name, ".conv1.", ".conv0.conv.");
    replace(name, ".conv2.", ".conv1.conv.");
    replace(name, ".bn1.", ".conv0.norm.");
    replace(name, ".bn2.", ".conv1.norm.");
    return name;
  });
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
