// DBNet: the sizes of its parts, its loss, and its errors.
#include <apps/ocr/detection/dbnet.h>
#include <apps/ocr/detection/dbnet_loss.h>
#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/models/picture_models.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/expect_error.h"
#include "state/pth/made_mindspore.h"

namespace lockstep::test {
namespace {

using torch::Tensor;

std::int64_t parameters_below(const ocr::Dbnet& model, std::string_view prefix) {
  std::int64_t count = 0;
  for (const auto& item : model.named_parameters()) count += item.key().starts_with(prefix) ? item.value().numel() : 0;
  return count;
}

TEST(Dbnet, HasThePartsOfThePaper) {
  const ocr::Dbnet model({.depth = 50});
  EXPECT_EQ(parameters_below(model, "backbone."), 23'508'032);
  EXPECT_EQ(parameters_below(model, "fpn."), 1'572'864);
  EXPECT_EQ(parameters_below(model, "head.segm."), 164'417);
  EXPECT_EQ(parameters_below(model, "head.thresh."), 164'417);
  EXPECT_EQ(parameters_below(model, ""), 25'409'730);
}

TEST(Dbnet, SaysMapsOfThePicturesSize) {
  ocr::Dbnet model({.depth = 18, .channels = 16});
  const auto pictures = torch::randn({2, 3, 64, 96});
  const auto maps = model.forward(pictures);
  for (const auto& map : {maps.probability, maps.threshold, maps.binary}) {
    EXPECT_EQ(map.sizes(), (std::vector<std::int64_t>{2, 64, 96}));
    EXPECT_TRUE(map.min().item<float>() >= 0 && map.max().item<float>() <= 1);
  }
  EXPECT_TRUE(torch::allclose(maps.binary, torch::sigmoid(50 * (maps.probability - maps.threshold))));
  model.eval();
  EXPECT_FALSE(model.forward(pictures).threshold.defined());
}

TEST(Dbnet, RefusesSidesThatDoNotFit) {
  ocr::Dbnet model({.depth = 18, .channels = 16});
  expect_error(ErrorKind::invalid_argument, {"multiples of 32", "[1, 3, 60, 64]", "text_resize"}, [&] {
    model.forward(torch::zeros({1, 3, 60, 64}));
  });
  expect_error(ErrorKind::config, {"model.depth", "34"}, [] { ocr::Dbnet other({.depth = 34}); });
  expect_error(ErrorKind::config, {"model.channels", "6"}, [] { ocr::Dbnet other({.depth = 18, .channels = 6}); });
}

TEST(Dbnet, BeginsWithTheWeightsOfAClassifier) {
  const TemporaryFolder folder;
  torch::manual_seed(3);
  const auto classifier = models::resnet18(7);
  auto weights = train::module_state(*classifier);
  state::NamedTensors map(weights.begin(), weights.end());
  state::save_safetensors(folder.path() / "all.safetensors", map);
  for (auto item = map.begin(); item != map.end();) {
    const bool extra = item->first.starts_with("fc.") || item->first.ends_with("num_batches_tracked");
    item = extra ? map.erase(item) : std::next(item);
  }
  state::save_safetensors(folder.path() / "bare.safetensors", map);
  for (const auto* file : {"all.safetensors", "bare.safetensors"}) {
    ocr::Dbnet model({.depth = 18, .channels = 16, .backbone_weights = (folder.path() / file).string()});
    EXPECT_FALSE(model.load_backbone().empty());
    const auto state = train::module_state(model);
    for (const auto& [name, tensor] : map) EXPECT_TRUE(torch::equal(tensor, state.at("backbone." + name))) << name;
  }
  map.erase("layer1.0.conv1.weight");
  state::save_safetensors(folder.path() / "torn.safetensors", map);
  ocr::Dbnet model({.depth = 18, .channels = 16, .backbone_weights = (folder.path() / "torn.safetensors").string()});
  expect_error(ErrorKind::config, {"model.backbone_weights", "layer1.0.conv1.weight"}, [&] { model.load_backbone(); });
}

/// MindOCR's name of a tensor of DBNet: its backbone is MindCV's ResNet, its neck DBFPN, its head DBHead.
std::string in_mindocr(std::string name) {
  const auto replace = [&](std::string_view ours, std::string_view theirs) {
    if (const auto at = name.find(ours); at != std::string::npos) name.replace(at, ours.size(), theirs);
  };
  replace(".downsample.", ".down_sample.");
  for (int level = 2; level <= 5; ++level) {
    replace("fpn.lateral" + std::to_string(level), "neck.unify_channels." + std::to_string(level - 2));
    replace("fpn.out" + std::to_string(level), "neck.out." + std::to_string(level - 2));
  }
  const bool in_head =
      name.starts_with("head.") && (name.find(".1.") != std::string::npos || name.find(".4.") != std::string::npos);
  const bool is_norm =
      in_head || name.find("bn") != std::string::npos || name.find("down_sample.1.") != std::string::npos;
  if (is_norm) {
    replace(".running_mean", ".moving_mean");
    replace(".running_var", ".moving_variance");
    replace(".weight", ".gamma");
    replace(".bias", ".beta");
  }
  return name;
}

TEST(Dbnet, ReadsMindocrsWeights) {
  const TemporaryFolder folder;
  ocr::Dbnet trained({.depth = 50, .channels = 16});
  std::string file;
  for (const auto& [name, tensor] : train::module_state(trained)) {
    if (name.ends_with("num_batches_tracked")) continue;
    const torch::NoGradGuard no_grad;
    at::Tensor(tensor).uniform_();
    const std::vector<std::uint64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
    file += mindspore_value(in_mindocr(name), sizes, "Float32",
                            {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()});
  }
  const auto path = folder.path() / "dbnet.ckpt";
  std::ofstream(path, std::ios::binary) << file;
  ocr::Dbnet model({.depth = 50, .channels = 16});
  train::load_weights(model, path);
  const auto state = train::module_state(model);
  for (const auto& [name, tensor] : train::module_state(trained)) {
    EXPECT_TRUE(torch::equal(tensor, state.at(name))) << name;
  }
}

struct Golden {
  ocr::TextMaps maps;
  ocr::TextTargets targets;
};

Golden golden() {
  const auto map = [](std::initializer_list<float> values) {
    return torch::tensor(std::vector<float>(values)).view({1, 2, 4});
  };
  return {{map({.9F, .2F, .6F, .1F, .8F, .3F, .4F, .05F}), map({.3F, .5F, .6F, .4F, .3F, .7F, .3F, .3F}),
           torch::sigmoid(
               50 * (map({.9F, .2F, .6F, .1F, .8F, .3F, .4F, .05F}) - map({.3F, .5F, .6F, .4F, .3F, .7F, .3F, .3F})))},
          {map({1, 0, 0, 0, 1, 0, 0, 0}).to(torch::kByte), map({1, 1, 1, 1, 1, 1, 1, 0}).to(torch::kByte),
           map({.3F, .5F, .7F, .3F, .4F, .6F, .3F, .3F}), map({1, 1, 1, 0, 1, 1, 0, 0}).to(torch::kByte)}};
}

TEST(DbnetLoss, IsThatOfThePaper) {
  const auto [maps, targets] = golden();
  const auto sums = ocr::dbnet_sums(maps, targets, {});
  const auto loss_with = [&](double binary, double threshold, double probability) {
    return ocr::dbnet_loss(sums, {binary, threshold, probability}).item<double>();
  };
  EXPECT_EQ(sums[1].item<double>(), 7);
  EXPECT_NEAR(loss_with(0, 0, 1), 0.3486856, 1e-6);
  EXPECT_NEAR(loss_with(0, 1, 0), 0.0600000, 1e-6);
  EXPECT_NEAR(loss_with(1, 0, 0), 0.2718415, 1e-6);
  EXPECT_NEAR(ocr::dbnet_loss(sums, {}).item<double>(), 2.6152692, 1e-5);
}

TEST(DbnetLoss, OfTheProbabilityAloneHasNoOtherParts) {
  auto [maps, targets] = golden();
  maps.threshold = maps.binary = Tensor();
  EXPECT_NEAR(ocr::dbnet_loss(ocr::dbnet_sums(maps, targets, {}), {}).item<double>(), 5 * 0.3486856, 1e-5);
}

TEST(DbnetLoss, CountsTheHardestNegativesOfEachPicture) {
  // One positive pixel, so the ten hardest of the others; the second picture has none of text: its ten hardest.
  auto probability = torch::full({2, 8, 8}, 0.1F);
  probability[0].slice(0, 0, 2).fill_(0.5);  // 16 pixels that are equal: each counts for ten sixteenths
  probability[0][7][7] = 0.8F;
  auto text = torch::zeros({2, 8, 8}, torch::kByte);
  text[0][7][7] = 1;
  const auto sums = ocr::dbnet_sums({probability, {}, {}}, {text, torch::ones({2, 8, 8}, torch::kByte)}, {});
  EXPECT_EQ(sums[1].item<double>(), 1 + 10 + 10);
  EXPECT_NEAR(sums[0].item<double>(), -std::log(0.8) - 10 * std::log(0.5) - 10 * std::log(0.9), 1e-4);
}

TEST(DbnetLoss, CountsNoPixelsThatAreMaskedOut) {
  const auto probability = torch::full({1, 4, 4}, 0.25F);
  const auto none = torch::zeros({1, 4, 4}, torch::kByte);
  const auto sums = ocr::dbnet_sums({probability, probability, probability}, {none, none, probability, none}, {});
  EXPECT_EQ(sums.abs().sum().item<double>(), 0);
  EXPECT_EQ(ocr::dbnet_loss(sums, {}).item<double>(), 0);
}

TEST(DbnetLoss, OfAllPicturesIsThatOfTheirSums) {
  torch::manual_seed(1);
  const auto draw = [] { return torch::rand({4, 16, 16}); };
  const ocr::TextMaps maps{draw(), draw(), draw()};
  const ocr::TextTargets targets{(draw() > 0.8).to(torch::kByte), (draw() > 0.1).to(torch::kByte), draw(),
                                 (draw() > 0.5).to(torch::kByte)};
  auto parts = torch::zeros({ocr::kDbnetSums}, torch::kDouble);
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto one = [i](const Tensor& tensor) { return tensor.narrow(0, i, 1); };
    parts += ocr::dbnet_sums(
        {one(maps.probability), one(maps.threshold), one(maps.binary)},
        {one(targets.text), one(targets.mask), one(targets.threshold), one(targets.threshold_mask)}, {});
  }
  EXPECT_TRUE(torch::allclose(parts, ocr::dbnet_sums(maps, targets, {}), 1e-12, 1e-9));
}

TEST(Dbnet, HasMobileNetV3AsABackboneOfMindocrsSizes) {
  ocr::Dbnet model({.backbone = "mobilenet_v3", .channels = 32});
  std::int64_t backbone = 0;
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.key().starts_with("backbone.")) backbone += parameter.value().numel();
  }
  // Half of the paper's channels, each block with an expansion, no classifier.
  EXPECT_EQ(backbone, 778022);
  const auto names = model.named_parameters();
  for (const auto* name : {"backbone.features.0.weight", "backbone.features.3.layers.0.weight",
                           "backbone.features.6.layers.6.conv_reduce.bias", "backbone.features.19.bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(model.named_parameters()["fpn.lateral5.weight"].size(1), 480);
  const auto maps = model.forward(torch::rand({2, 3, 64, 96}));
  EXPECT_EQ(maps.probability.sizes(), (std::vector<std::int64_t>{2, 64, 96}));
  EXPECT_TRUE(maps.probability.requires_grad());  // no gradients here: later tests fork
  EXPECT_EQ(ocr::mobile_channels(12), 16);        // not below nine tenths
  EXPECT_EQ(ocr::mobile_channels(92), 96);
  EXPECT_EQ(ocr::mobile_channels(3), 8);
}

}  // namespace
}  // namespace lockstep::test
