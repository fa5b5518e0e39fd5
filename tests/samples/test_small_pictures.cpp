// What transforms do to small pictures in memory, compiled and step by step.
#include <gtest/gtest.h>
#include <lockstep/data/sampler.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "data/data_files.h"
#include "samples/small_pictures.h"

namespace lockstep::test {
namespace {

using data::PictureShape;
using data::SampleKey;

/// The given steps between bytes and float32 CHW with the same values.
std::string plain(const std::string& steps) {
  return fmt::format("[{}{}type_cast: {{type: float32}}, hwc2chw]", steps, steps.empty() ? "" : ", ");
}

std::vector<std::uint8_t> counting(const PictureShape& shape) {
  std::vector<std::uint8_t> pixels(data::picture_size(shape));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i + 1);
  return pixels;
}

class InBothForms : public testing::TestWithParam<Form> {
 protected:
  static std::vector<float> run(const std::string& list, const PictureShape& shape,
                                std::span<const std::uint8_t> pixels, const SampleKey& key = {}) {
    return apply(small_list(list, shape), shape, pixels, key, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(SmallPictures, InBothForms, testing::Values(Form::fastest, Form::step_by_step),
                         [](const auto& form) { return form.param == Form::fastest ? "Compiled" : "StepByStep"; });

TEST_P(InBothForms, PlanesKeepTheirPlaces) {
  const PictureShape shape{2, 3, 4};
  const auto pixels = counting(shape);
  EXPECT_EQ(run(plain(""), shape, pixels), std::vector<float>(pixels.begin(), pixels.end()));
}

TEST_P(InBothForms, FlipMirrorsLeftAndRight) {
  const PictureShape shape{2, 2, 3};
  EXPECT_EQ(run(plain("random_horizontal_flip: {prob: 1}"), shape, counting(shape)),
            (std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10}));
  EXPECT_EQ(run(plain("random_horizontal_flip: {prob: 0}"), shape, counting(shape))[0], 1);
}

TEST_P(InBothForms, FlipHappensAsOftenAsItShould) {
  const PictureShape shape{1, 1, 2};
  const auto list = small_list(plain("random_horizontal_flip: {prob: 0.3}"), shape);
  int flips = 0;
  for (int i = 0; i < 10000; ++i) flips += apply(list, shape, counting(shape), {1, 2, i}, GetParam())[0] == 2 ? 1 : 0;
  EXPECT_NEAR(flips, 3000, 150);
}

TEST_P(InBothForms, CropCutsEveryWindowAboutEquallyOften) {
  const PictureShape shape{1, 3, 3};
  // 1 column of zeros on the left, 2 rows above: the padded picture is 5 x 4, and the window has 4 x 3 places.
  const auto list = small_list(plain("random_crop: {size: 2, padding: [1, 2, 0, 0]}"), shape);
  const std::array<std::array<float, 4>, 5> padded{
      {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 1, 2, 3}, {0, 4, 5, 6}, {0, 7, 8, 9}}};
  std::map<std::vector<float>, int> seen;
  for (int i = 0; i < 12000; ++i) ++seen[apply(list, shape, counting(shape), {3, 0, i}, GetParam())];
  std::map<std::vector<float>, int> expected;
  for (std::size_t top = 0; top < 4; ++top) {
    for (std::size_t left = 0; left < 3; ++left) {
      expected[{padded[top][left], padded[top][left + 1], padded[top + 1][left], padded[top + 1][left + 1]}] += 1000;
    }
  }
  ASSERT_EQ(seen.size(), expected.size());
  for (const auto& [window, count] : expected) EXPECT_NEAR(seen[window], count, 5 * std::sqrt(count));
}

TEST_P(InBothForms, RescaleThenNormalizeByChannel) {
  EXPECT_EQ(run("[rescale: {scale: 0.5, shift: 1}, normalize: {mean: [1, 2], std: [2, 4]}, hwc2chw]", {2, 1, 2},
                std::vector<std::uint8_t>{0, 10, 20, 255}),
            (std::vector<float>{0, 2.5F, 2.25F, 31.625F}));
}

TEST_P(InBothForms, ToTensorDividesBytesBy255) {
  EXPECT_EQ(run("[to_tensor]", {2, 1, 2}, std::vector<std::uint8_t>{0, 51, 255, 1}),
            (std::vector<float>{0, 0.2F, 1, 1.0F / 255}));
  EXPECT_EQ(run("[rescale: {scale: 2}, to_tensor]", {1, 1, 2}, std::vector<std::uint8_t>{1, 5}),
            (std::vector<float>{2, 10}));
}

TEST_P(InBothForms, TypeCastToIntegersDropsTheFraction) {
  EXPECT_EQ(run("[rescale: {scale: 0.3, shift: -1}, type_cast: {type: int32}, type_cast: {type: float32}, hwc2chw]",
                {1, 1, 4}, std::vector<std::uint8_t>{0, 1, 2, 10}),
            (std::vector<float>{-1, 0, 0, 2}));
}

// Expected values: torch.nn.functional.interpolate(mode="bilinear", align_corners=False) of PyTorch 1.13.
TEST_P(InBothForms, ResizeAgreesWithTorch) {
  const PictureShape shape{1, 3, 4};
  const std::vector<std::uint8_t> pixels{0, 37, 74, 10, 47, 84, 20, 57, 94, 30, 67, 3};
  const auto resized = [&](int height, int width) {
    return run(fmt::format("[type_cast: {{type: float32}}, resize: {{size: [{}, {}]}}, hwc2chw]", height, width), shape,
               pixels);
  };
  const auto expect_near = [](const std::vector<float>& values, const std::vector<float>& expected) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 2e-5) << i;
  };
  expect_near(resized(5, 7), {0.000000F,  13.214287F, 34.357143F, 55.500004F, 69.428566F, 32.857132F, 10.000000F,
                              18.800001F, 32.014286F, 53.157145F, 54.099998F, 50.714283F, 37.228569F, 28.800003F,
                              47.000004F, 60.214283F, 81.357139F, 51.999992F, 22.642864F, 43.785717F, 56.999996F,
                              75.200005F, 66.771423F, 53.285710F, 49.899998F, 46.514286F, 33.028564F, 24.599997F,
                              94.000000F, 71.142845F, 34.571426F, 48.500004F, 62.428566F, 25.857132F, 3.000000F});
  expect_near(resized(2, 3), {17.916668F, 54.625F, 28.208330F, 75.791664F, 49.375F, 22.958330F});
  expect_near(resized(3, 4), {0, 37, 74, 10, 47, 84, 20, 57, 94, 30, 67, 3});
}

TEST_P(InBothForms, ResizedBytesAreRoundedToNearest) {
  // 1 x 2 to 1 x 4: a, (3a + b) / 4, (a + 3b) / 4, b.
  const auto resized = [](std::vector<std::uint8_t> pixels) {
    return run(plain("resize: {size: [1, 4]}"), {1, 1, 2}, pixels);
  };
  EXPECT_EQ(resized({10, 12}), (std::vector<float>{10, 11, 12, 12}));  // 10.5, 11.5: halves up
  EXPECT_EQ(resized({0, 255}), (std::vector<float>{0, 64, 191, 255}));
  EXPECT_EQ(resized({255, 255}), (std::vector<float>{255, 255, 255, 255}));
}

TEST_P(InBothForms, SampleDependsOnSeedEpochAndIndex) {
  const PictureShape shape{3, 32, 32};
  const auto pictures = random_dataset(shape, 1, 1);
  const auto list = small_list(kUsualList, shape);
  const auto of = [&](const SampleKey& key) { return apply(list, shape, (*pictures)[0].pixels, key, GetParam()); };
  EXPECT_EQ(of({1, 2, 3}), of({1, 2, 3}));
  std::set<std::vector<float>> others;
  for (int i = 10; i < 30; ++i) {
    others.insert(of({static_cast<std::uint64_t>(i), 2, 3}));
    others.insert(of({1, i, 3}));
    others.insert(of({1, 2, i}));
  }
  EXPECT_GT(others.size(), 40U) << "of 60 draws among 162 looks";
}

TEST(SmallPictures, TwoRandomTransformsDrawApart) {
  const PictureShape shape{1, 1, 2};
  const auto list = small_list(plain("random_horizontal_flip, random_horizontal_flip"), shape);
  int mirrored = 0;
  for (int i = 0; i < 1000; ++i) mirrored += apply(list, shape, counting(shape), {1, 0, i})[0] == 2 ? 1 : 0;
  EXPECT_NEAR(mirrored, 500, 80) << "with the same draw twice it would be 0";
}

TEST(SmallPictures, TransformsOnFloatsRunStepByStep) {
  const PictureShape shape{1, 1, 2};
  const auto list = small_list(
      "[rescale: {scale: 1, shift: 5}, random_crop: {size: [1, 4], padding: [1, 0]}, resize: {size: [1, 8]}, hwc2chw]",
      shape);
  EXPECT_FALSE(list.plan);
  // Padding comes after the shift, so it is 0 and not 5; nothing is rounded.
  EXPECT_EQ(apply(list, shape, std::vector<std::uint8_t>{3, 5}),
            (std::vector<float>{0, 2, 6, 8.5F, 9.5F, 7.5F, 2.5F, 0}));
}

TEST(SmallPictures, StepsWithoutCompiledFormRunStepByStep) {
  const PictureShape shape{3, 8, 8};
  for (const std::string step : {"color_jitter: {brightness: 0.5}", "center_crop: {size: 4}", "pad: {padding: 1}",
                                 "random_crop: {size: 9, pad_if_needed: true}", "random_crop: {size: 8, fill: 3}",
                                 "resize: {size: 4, antialias: true}", "resize: {size: 9}, resize: {size: 5}"}) {
    const auto list = small_list("[" + step + ", to_tensor]", shape);
    EXPECT_FALSE(list.plan) << step;
    EXPECT_TRUE(list.steps) << step;
  }
}

/// One random list that can be compiled.
std::string random_list(data::RandomStream& random, PictureShape shape) {
  std::vector<std::string> steps;
  const auto number = [&](int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  const auto add_moves = [&] {
    for (auto n = random.below(4); n > 0; --n) {
      if (random.below(2) == 0) {
        steps.emplace_back("random_horizontal_flip");
        continue;
      }
      const std::array<int, 4> pads{number(0, 5), number(0, 5), number(0, 5), number(0, 5)};
      const int height = number(1, shape.height + pads[1] + pads[3]);
      const int width = number(1, shape.width + pads[0] + pads[2]);
      steps.push_back(fmt::format("random_crop: {{size: [{}, {}], padding: {}}}", height, width, pads));
      shape = {shape.channels, height, width};
    }
  };
  add_moves();
  if (random.below(2) == 0) {
    shape = {shape.channels, number(1, 40), number(1, 40)};
    steps.push_back(fmt::format("resize: {{size: [{}, {}]}}", shape.height, shape.width));
    add_moves();
  }
  const auto order = random.below(3);
  if (order == 0) steps.emplace_back("hwc2chw");
  if (order == 1) steps.emplace_back("to_tensor");
  steps.push_back(fmt::format("rescale: {{scale: {}, shift: {}}}", random.uniform(-1, 1), random.uniform(-10, 10)));
  if (random.below(3) == 0) steps.emplace_back("type_cast: {type: int32}");
  const std::vector<double> mean(static_cast<std::size_t>(shape.channels), random.uniform(-1, 1));
  steps.push_back(fmt::format("normalize: {{mean: {}, std: {}}}", mean, random.uniform(0.1, 2)));
  if (order == 2) steps.emplace_back("hwc2chw");
  return fmt::format("[{}]", fmt::join(steps, ", "));
}

void expect_equal_forms(const samples::TransformList& list, const PictureShape& shape,
                        std::span<const std::uint8_t> pixels, const SampleKey& key) {
  const auto a = apply(list, shape, pixels, key, Form::fastest);
  const auto b = apply(list, shape, pixels, key, Form::step_by_step);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << list.text;
}

TEST(SmallPictures, CompiledAndStepByStepAgreeToTheLastBit) {
  data::RandomStream random(2024, data::RandomPurpose::transform, {});
  for (int trial = 0; trial < 400; ++trial) {
    const PictureShape shape{static_cast<int>(1 + random.below(3)), static_cast<int>(1 + random.below(20)),
                             static_cast<int>(1 + random.below(20))};
    const auto pictures = random_dataset(shape, 1, random.next());
    const auto list = small_list(random_list(random, shape), shape);
    ASSERT_TRUE(list.plan) << list.text;
    for (int i = 0; i < 5; ++i) {
      ASSERT_NO_FATAL_FAILURE(expect_equal_forms(list, shape, (*pictures)[0].pixels, {7, trial, i}));
    }
  }
}

TEST(SmallPictures, UsualListsAgreeToTheLastBit) {
  const PictureShape shape{3, 32, 32};
  const auto pictures = random_dataset(shape, 20, 5);
  auto large = kUsualList;
  large.insert(large.find("rescale"), "resize: {size: 224}, ");
  for (const auto& text : {kUsualList, large}) {
    const auto list = small_list(text, shape);
    ASSERT_TRUE(list.plan);
    for (int i = 0; i < 20; ++i) {
      ASSERT_NO_FATAL_FAILURE(expect_equal_forms(list, shape, (*pictures)[i].pixels, {1, 0, i}));
    }
  }
}

/// FNV-1a of the bytes of all values.
std::uint64_t fingerprint(const std::string& text, const PictureShape& shape) {
  const auto pictures = random_dataset(shape, 8, 5);
  const auto list = small_list(text, shape);
  std::uint64_t hash = 14695981039346656037ULL;
  for (int i = 0; i < 8; ++i) {
    for (const float value : apply(list, shape, (*pictures)[i].pixels, {3, 1, i})) {
      std::array<unsigned char, sizeof(float)> bytes{};
      std::memcpy(bytes.data(), &value, sizeof(float));
      for (const auto byte : bytes) hash = (hash ^ byte) * 1099511628211ULL;
    }
  }
  return hash;
}

// A run that goes on with a later version gets the pictures that it would have got.
TEST(SmallPictures, AreThoseOfEarlierVersions) {
  EXPECT_EQ(fingerprint(kUsualList, {3, 32, 32}), 2905777521349672835ULL);
  EXPECT_EQ(fingerprint("[rescale: {scale: 0.00392156862745098, shift: 0.25}, random_crop: {size: [20, 24], padding: "
                        "[1, 2, 3, 4]}, resize: {size: 30}, random_horizontal_flip, hwc2chw]",
                        {3, 32, 32}),
            187044783873668118ULL);
}

}  // namespace
}  // namespace lockstep::test
