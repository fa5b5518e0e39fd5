// Random operations, erased boxes and mixed batches of pictures, and the warning about values that nothing scales.
#include <lockstep/base/config.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/samples/dataset.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "base/expect_error.h"
#include "samples/small_pictures.h"

namespace lockstep::test {
namespace {

using samples::Batch;
using samples::Chance;
using samples::Dataset;
using samples::Sample;

constexpr std::int64_t kFewSamples = 10, kFewClasses = 4;
const std::string kFloats = "rescale: {scale: 0.00392156862745098}, hwc2chw";

torch::Tensor striped(std::int64_t height, std::int64_t width) {
  return torch::arange(height * width * 3).mul(7).remainder(251).to(torch::kByte).reshape({height, width, 3});
}

ConfigNode parsed_list(const std::string& list) { return *parse_config("steps: " + list, "t.yaml").root.find("steps"); }

torch::Tensor changed_by(const std::string& list, const torch::Tensor& picture, std::int64_t index = 0) {
  const auto steps = samples::transforms_of(parsed_list(list), "data.train_transforms", samples::shipped_transforms());
  return steps({.tensors = {{samples::kPictures, picture}}}, Chance(3, 1, index)).tensors.at(samples::kPictures);
}

/// Pictures in memory, as those of cifar10.
class FewPictures final : public data::Pictures {
 public:
  std::int64_t size() const override { return kFewSamples; }
  data::PictureShape shape() const override { return {3, 8, 6}; }
  int num_classes() const override { return kFewClasses; }
  data::Record operator[](std::int64_t index) const override {
    return {{bytes_.data() + index, 3 * 8 * 6}, static_cast<int>(index % kFewClasses)};
  }

 private:
  std::vector<std::uint8_t> bytes_ = [] {
    std::vector<std::uint8_t> bytes(3 * 8 * 6 + kFewSamples);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 % 256);
    return bytes;
  }();
};

std::shared_ptr<const Dataset> in_memory() { return samples::from_pictures(std::make_shared<FewPictures>()); }

/// The same samples, as from files of other sizes.
std::shared_ptr<const Dataset> from_files() {
  std::vector<torch::Tensor> pictures;
  for (std::int64_t i = 0; i < kFewSamples; ++i) {
    pictures.push_back(in_memory()->get(i, Chance(0, 0, i)).tensors.at(samples::kPictures));
  }
  return samples::from_tensors({{samples::kPictures, torch::stack(pictures)},
                                {samples::kLabels, torch::arange(kFewSamples).remainder(kFewClasses)}});
}

std::shared_ptr<const Dataset> with_list(std::shared_ptr<const Dataset> dataset, const std::string& list,
                                         bool with_random = true) {
  return samples::transformed(std::move(dataset), parsed_list(list), "data.train_transforms",
                              samples::shipped_transforms(), with_random);
}

std::vector<Batch> mixed_batches_of(const std::shared_ptr<const Dataset>& dataset, std::int64_t first = 0,
                                    int workers = 0) {
  const data::ShardedSampler sampler({.dataset_size = kFewSamples, .shuffle = false, .batch_size = 5});
  const auto batches = dataset->batches(dataset, sampler, {.workers = workers, .prefetch = 2, .seed = 5});
  batches->start(1, first);
  std::vector<Batch> all;
  while (auto batch = batches->next()) all.push_back(*batch);
  return all;
}

TEST(Augmentations, RandAugmentDrawsForEachSample) {
  const auto picture = striped(20, 24);
  int changed = 0;
  for (std::int64_t i = 0; i < 30; ++i) {
    const auto out = changed_by("[RandAugment: {num_ops: 3, magnitude: 20}]", picture, i);
    EXPECT_EQ(out.sizes(), picture.sizes());
    EXPECT_EQ(out.scalar_type(), torch::kByte);
    EXPECT_TRUE(torch::equal(out, changed_by("[rand_augment: {num_ops: 3, magnitude: 20}]", picture, i)));
    EXPECT_TRUE(torch::equal(changed_by("[rand_augment: {num_ops: 0}]", picture, i), picture));
    changed += torch::equal(out, picture) ? 0 : 1;
  }
  EXPECT_GT(changed, 20);
  // Grey pictures, and those that are too small for a filter.
  EXPECT_EQ(changed_by("[rand_augment: {num_ops: 40}]", striped(2, 2).narrow(2, 0, 1)).sizes(),
            (std::vector<std::int64_t>{2, 2, 1}));
  EXPECT_EQ(changed_by("[rand_augment: {num_ops: 40, interpolation: bilinear, fill: 9}]", striped(1, 7)).size(1), 7);
}

TEST(Augmentations, RandomErasingChangesABoxOfOneSample) {
  const auto picture = striped(20, 30), kept = picture.clone();
  int boxes = 0;
  for (std::int64_t i = 0; i < 30; ++i) {
    const auto bytes = changed_by("[random_erasing: {scale: [0.1, 0.2], value: [255, 254, 253]}]", picture, i);
    EXPECT_TRUE(torch::equal(picture, kept)) << "the stored picture must stay";
    // HWC and CHW have the same box.
    const auto floats = changed_by(
        "[type_cast: {type: float32}, hwc2chw, random_erasing: {scale: [0.1, 0.2], value: [255, "
        "254, 253]}]",
        picture, i);
    EXPECT_TRUE(torch::equal(bytes.permute({2, 0, 1}).to(torch::kFloat), floats));
    const auto erased = bytes.eq(torch::tensor({255, 254, 253}, torch::kByte)).all(2);
    if (torch::equal(bytes, picture)) continue;
    ++boxes;
    const auto share = erased.to(torch::kFloat).mean().item<double>();
    EXPECT_GT(share, 0.05);
    EXPECT_LT(share, 0.25);
    const auto rows = erased.any(1).sum().item<std::int64_t>(), columns = erased.any(0).sum().item<std::int64_t>();
    EXPECT_EQ(rows * columns, erased.sum().item<std::int64_t>()) << "one box";
  }
  EXPECT_GT(boxes, 5);
  EXPECT_LT(boxes, 25);
  EXPECT_TRUE(torch::equal(changed_by("[random_erasing: {prob: 0}]", picture), picture));
  const auto noise = changed_by("[to_tensor, random_erasing: {prob: 1, noise: true, scale: [0.3, 0.4]}]", picture);
  EXPECT_LT(noise.min().item<double>(), -0.5);
}

TEST(Augmentations, MixedLabelsAreTheSharesOfPictures) {
  for (const auto& dataset : {in_memory(), from_files()}) {
    const auto plain = mixed_batches_of(with_list(dataset, "[" + kFloats + "]"));
    ASSERT_EQ(plain.size(), 2U);
    for (const std::string step : {"mixup: {num_classes: 4}", "cutmix: {num_classes: 4, alpha: 2}"}) {
      const auto mixed = mixed_batches_of(with_list(dataset, "[" + kFloats + ", " + step + "]"));
      ASSERT_EQ(mixed.size(), 2U);
      std::vector<double> drawn;
      for (std::size_t b = 0; b < mixed.size(); ++b) {
        EXPECT_EQ(mixed[b].indices, plain[b].indices);
        const auto& labels = mixed[b]["labels"];
        ASSERT_EQ(labels.sizes(), (std::vector<std::int64_t>{5, kFewClasses}));
        EXPECT_TRUE(torch::allclose(labels.sum(1), torch::ones({5})));
        const auto before = plain[b]["labels"];
        const double own = labels[1][before[1].item<std::int64_t>()].item<double>();
        drawn.push_back(own);
        const auto one_hot = torch::one_hot(before, kFewClasses).to(torch::kFloat);
        EXPECT_TRUE(torch::allclose(labels, own * one_hot + (1 - own) * one_hot.roll({1}, {0})));
        const auto of = plain[b]["pictures"], other = of.roll({1}, {0}), out = mixed[b]["pictures"];
        if (step.starts_with("mixup")) {
          EXPECT_TRUE(torch::allclose(out, own * of + (1 - own) * other));
        } else {
          EXPECT_TRUE(out.eq(of).logical_or(out.eq(other)).all().item<bool>());
          const auto from_other = out.ne(of).any(1).any(0).to(torch::kFloat).mean().item<double>();
          EXPECT_NEAR(from_other, 1 - own, 1e-6) << "the area";
        }
      }
      EXPECT_NE(drawn[0], drawn[1]);
    }
  }
}

TEST(Augmentations, MixedBatchesAreTheSameWithThreadsAndAfterAResume) {
  const auto dataset = with_list(in_memory(), "[random_horizontal_flip, " + kFloats + ", mixup: {alpha: 0.4}, cutmix]");
  EXPECT_EQ(dataset->example()["labels"].sizes(), (std::vector<std::int64_t>{1, kFewClasses}));
  const auto all = mixed_batches_of(dataset);
  const auto later = mixed_batches_of(dataset, 1, 2);
  ASSERT_EQ(later.size(), 1U);
  for (const auto* field : {"pictures", "labels"}) EXPECT_TRUE(torch::equal(all[1][field], later[0][field])) << field;
  const auto seldom = mixed_batches_of(with_list(in_memory(), "[" + kFloats + ", mixup: {prob: 0}]"))[0]["labels"];
  EXPECT_EQ(seldom.sum().item<double>(), seldom.eq(1).sum().item<double>()) << "shares of 0 and 1";
  const auto evaluated = mixed_batches_of(with_list(in_memory(), "[" + kFloats + ", mixup]", false))[0]["labels"];
  EXPECT_EQ(evaluated.scalar_type(), torch::kLong);
}

TEST(Augmentations, MistakesNameTheirPlace) {
  const auto fails = [](const std::string& list, std::initializer_list<std::string_view> words,
                        const std::shared_ptr<const Dataset>& dataset = in_memory()) {
    SCOPED_TRACE(list);
    expect_error(ErrorKind::config, words, [&] { mixed_batches_of(with_list(dataset, list)); });
  };
  fails("[mixup, " + kFloats + "]", {"[data.train_transforms]", "rescale", "whole batches", "t.yaml:1"});
  fails("[" + kFloats + ", mixup]", {"[data.train_transforms]", "mixup needs num_classes", "t.yaml:1"}, from_files());
  fails("[mixup: {num_classes: 4}]", {"[data.train_transforms]", "mixup", "Byte", "to_tensor"}, from_files());
  fails("[mixup: {alpha: 0}]", {"mixup.alpha"});
  fails("[rand_augment: {magnitude: 31}, " + kFloats + "]", {"magnitude", "31", "t.yaml:1"});
  fails("[to_tensor, rand_augment]", {"rand_augment works on HWC"});
  fails("[rescale: {scale: 0.5}, rand_augment, hwc2chw]", {"[data.train_transforms]", "bytes", "Float"});
  fails("[random_erasing: {scale: [0.5, 0.1]}, " + kFloats + "]", {"scale", "[0.5, 0.1]"});
  fails("[random_erasing: {value: [1, 2]}, " + kFloats + "]", {"2 numbers", "3 channels"});
  fails("[random_erasing: {noise: true}, " + kFloats + "]", {"noise is for floats", "Byte"});
  expect_error(ErrorKind::data, {"[data.train_transforms]", "label 2", "2 classes"},
               [&] { mixed_batches_of(with_list(in_memory(), "[" + kFloats + ", cutmix: {num_classes: 2}]")); });
}

TEST(Augmentations, NormalizeOfUnscaledValuesIsAWarning) {
  const auto warnings = [](const std::string& list, const std::shared_ptr<const Dataset>& dataset = in_memory(),
                           bool with_random = true) {
    const data::HeardReports heard;
    with_list(dataset, list, with_random);
    return heard.lines();
  };
  for (const auto& dataset : {in_memory(), from_files()}) {
    for (const std::string before : {"", "random_horizontal_flip, ", "type_cast: {type: float32}, "}) {
      const auto said = warnings("[" + before + "normalize: {mean: [0.49, 0.48, 0.45], std: 0.2}, hwc2chw]", dataset);
      ASSERT_EQ(said.size(), 1U) << before;
      expect_words(said.front(), {"data.train_transforms", "normalize", "255", "to_tensor"});
    }
    EXPECT_TRUE(warnings("[normalize: {mean: 127, std: 127}, hwc2chw]", dataset).empty());
    EXPECT_TRUE(warnings("[to_tensor, normalize: {mean: 0.5, std: 0.2}]", dataset).empty());
    EXPECT_TRUE(warnings("[" + kFloats + ", normalize: {mean: 0.5, std: 0.2}]", dataset).empty());
    EXPECT_TRUE(warnings("[normalize: {mean: 0.5, std: 0.2}, hwc2chw]", dataset, false).empty()) << "said for training";
  }
  // Pictures of a program that are floats from 0 to 1.
  const auto floats = samples::from_tensors({{samples::kPictures, torch::rand({3, 8, 8, 3})}});
  EXPECT_TRUE(warnings("[normalize: {mean: 0.5, std: 0.2}]", floats).empty());
}

}  // namespace
}  // namespace lockstep::test
