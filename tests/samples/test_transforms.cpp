// Lists of transforms: reading them, their random numbers, their order.
#include <lockstep/base/config.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/samples/pictures.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using samples::Chance;
using samples::Sample;

samples::Transform read(const std::string& list, bool with_random = true) {
  const auto source = parse_config("steps: " + list, "t.yaml");
  return samples::transforms_of(*source.root.find("steps"), "data.train_transforms", samples::shipped_transforms(),
                                with_random);
}

torch::Tensor numbered(std::int64_t height, std::int64_t width) {
  return torch::arange(height * width * 3).remainder(251).to(torch::kByte).reshape({height, width, 3});
}

torch::Tensor run(const std::string& list, const torch::Tensor& picture, std::int64_t index = 0) {
  Sample sample{.tensors = {{samples::kPictures, picture}}};
  return read(list)(std::move(sample), Chance(3, 1, index)).tensors.at(samples::kPictures);
}

TEST(Transforms, AStepThatIsAddedChangesNoOther) {
  const auto picture = numbered(20, 24);
  int different = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    const auto crop = run("[random_crop: {size: 8}]", picture, i);
    EXPECT_TRUE(torch::equal(run("[color_jitter: {hue: 0}, random_crop: {size: 8}]", picture, i), crop));
    const auto both = run("[random_horizontal_flip, random_crop: {size: 8}]", picture, i);
    const auto flip = run("[random_horizontal_flip]", picture, i);
    EXPECT_TRUE(torch::equal(both, run("[random_crop: {size: 8}]", flip, i)));
    // The second of a name draws numbers of its own.
    const auto twice = run("[random_crop: {size: 20}, random_crop: {size: 8}]", picture, i);
    const auto once = run("[random_crop: {size: 8}]", run("[random_crop: {size: 20}]", picture, i), i);
    different += torch::equal(twice, once) ? 0 : 1;
  }
  EXPECT_GT(different, 10);
}

TEST(Transforms, ChanceGivesOtherResultsForOtherSamplesAndTheSameForOne) {
  const auto picture = numbered(30, 30);
  const std::string list =
      "[random_resized_crop: {size: 10}, random_horizontal_flip, color_jitter: {brightness: 0.5, "
      "contrast: 0.5, saturation: 0.5, hue: 0.2}]";
  int equal = 0;
  for (std::int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(run(list, picture, i).sizes(), (std::vector<std::int64_t>{10, 10, 3}));
    EXPECT_TRUE(torch::equal(run(list, picture, i), run(list, picture, i)));
    equal += torch::equal(run(list, picture, i), run(list, picture, i + 1)) ? 1 : 0;
  }
  EXPECT_LT(equal, 2);
}

TEST(Transforms, BoxesOfRandomResizedCropKeepToTheirLimits) {
  const auto picture = numbered(40, 60);
  for (std::int64_t i = 0; i < 30; ++i) {
    // Of this size the result is the box itself, when it is the whole picture.
    EXPECT_TRUE(torch::equal(
        run("[random_resized_crop: {size: [40, 60], scale: [1, 1], ratio: [1.5, 1.5]}]", picture, i), picture));
    // No box has that ratio: the largest one in the middle that comes near it.
    const auto wide = run("[random_resized_crop: {size: [10, 60], scale: [1, 1], ratio: [6, 6]}]", picture, i);
    EXPECT_TRUE(torch::equal(wide, picture.narrow(0, 15, 10)));
  }
}

TEST(Transforms, NamesOfMindSporeAndSingleNumbersAreRead) {
  const auto picture = numbered(6, 6);
  const auto out =
      run("[Resize: {size: [4, 4]}, Rescale: {scale: 0.5, shift: 1}, Normalize: {mean: 1, std: [1, 2, 4]}, "
          "HWC2CHW]",
          picture);
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{3, 4, 4}));
  EXPECT_EQ(out.scalar_type(), torch::kFloat);
  const auto resized = run("[resize: {size: 4}]", picture).to(torch::kFloat).permute({2, 0, 1});
  EXPECT_TRUE(torch::allclose(out[2], resized[2] * 0.5 / 4));
}

TEST(Transforms, EvaluationLeavesOutWhatIsRandom) {
  const auto picture = numbered(9, 9);
  Sample sample{.tensors = {{samples::kPictures, picture}}};
  const auto out = read("[random_crop: {size: 5}, random_horizontal_flip, color_jitter: {brightness: 1}, to_tensor]",
                        false)(std::move(sample), Chance(3, 1, 0));
  EXPECT_TRUE(torch::equal(out.tensors.at(samples::kPictures), picture.permute({2, 0, 1}).to(torch::kFloat) / 255));
}

TEST(Transforms, MistakesNameTheirPlace) {
  const auto fails = [](const std::string& list, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::config, words, [&] { read(list); });
  };
  fails("[random_corp: {size: 3}]", {"random_crop", "t.yaml:1", "data.train_transforms"});
  fails("[resize: {siez: 3}]", {"data.train_transforms.resize", "siez", "size", "t.yaml:1"});
  fails("[resize]", {"size", "must be given"});
  fails("[resize: {size: 0}]", {"out of range"});
  fails("[resize: {size: [1, 2, 3]}]", {"[height, width]", "t.yaml:1"});
  fails("[pad: {padding: [1, 2, 3]}]", {"padding", "3 numbers"});
  fails("[random_resized_crop: {size: 3, scale: [1, 0.5]}]", {"scale", "[1, 0.5]"});
  fails("[to_tensor, resize: {size: 3}]", {"resize", "hwc2chw", "t.yaml:1"});
  fails("resize", {"data.train_transforms"});
  expect_error(ErrorKind::data, {"sample 0", "random_crop", "8 x 8"},
               [] { run("[random_crop: {size: 8}]", numbered(4, 4)); });
  expect_error(ErrorKind::config, {"normalize", "2 mean", "3 channels"},
               [] { run("[normalize: {mean: [1, 2], std: 1}]", numbered(4, 4)); });
  expect_error(ErrorKind::invalid_argument, {"pictures", "none"},
               [] { read("[to_tensor]")(Sample{}, Chance(0, 0, 0)); });
}

}  // namespace
}  // namespace lockstep::test
