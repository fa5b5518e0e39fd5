// What the transforms do to pixels.
#include <gtest/gtest.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/random.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "data/data_files.h"

namespace lockstep::data {
namespace {

using test::spec;
using Numbers = std::vector<double>;

std::vector<float> run(const Pipeline& pipeline, std::span<const std::uint8_t> pixels, const SampleKey& key = {}) {
  Pipeline::Scratch scratch;
  std::vector<float> out(picture_size(pipeline.output()), -1e9F);
  pipeline.apply(pixels, key, out, scratch);
  return out;
}

// The given transforms between bytes and float32 CHW with the same values.
Pipeline plain(std::vector<TransformSpec> specs, PictureShape shape, PipelineMode mode = PipelineMode::fastest) {
  specs.push_back(spec("type_cast", {{"type", "float32"}}));
  specs.push_back(spec("hwc2chw"));
  return {specs, shape, mode};
}

std::vector<std::uint8_t> counting(const PictureShape& shape) {
  std::vector<std::uint8_t> pixels(picture_size(shape));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i + 1);
  return pixels;
}

class InBothModes : public testing::TestWithParam<PipelineMode> {};
INSTANTIATE_TEST_SUITE_P(Pipeline, InBothModes, testing::Values(PipelineMode::fastest, PipelineMode::step_by_step),
                         [](const auto& mode) { return mode.param == PipelineMode::fastest ? "Fused" : "StepByStep"; });

TEST_P(InBothModes, PlanesKeepTheirPlaces) {
  const PictureShape shape{2, 3, 4};
  const auto pixels = counting(shape);
  EXPECT_EQ(run(plain({}, shape, GetParam()), pixels), std::vector<float>(pixels.begin(), pixels.end()));
}

TEST_P(InBothModes, FlipMirrorsLeftAndRight) {
  const PictureShape shape{2, 2, 3};
  const auto flip = [&](double prob) { return spec("random_horizontal_flip", {{"prob", prob}}); };
  EXPECT_EQ(run(plain({flip(1)}, shape, GetParam()), counting(shape)),
            (std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10}));
  EXPECT_EQ(run(plain({flip(0)}, shape, GetParam()), counting(shape))[0], 1);
}

TEST_P(InBothModes, FlipHappensAsOftenAsItShould) {
  const PictureShape shape{1, 1, 2};
  const Pipeline pipeline = plain({spec("random_horizontal_flip", {{"prob", 0.3}})}, shape, GetParam());
  int flips = 0;
  for (int i = 0; i < 10000; ++i) flips += run(pipeline, counting(shape), {1, 2, i})[0] == 2 ? 1 : 0;
  EXPECT_NEAR(flips, 3000, 150);
}

TEST_P(InBothModes, CropCutsEveryWindowAboutEquallyOften) {
  const PictureShape shape{1, 3, 3};
  // 1 column of zeros on the left, 2 rows above: the padded picture is 5 x 4, and the window has 4 x 3 places.
  const Pipeline pipeline =
      plain({spec("random_crop", {{"size", 2.0}, {"padding", Numbers{1, 2, 0, 0}}})}, shape, GetParam());
  const std::array<std::array<float, 4>, 5> padded{
      {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 1, 2, 3}, {0, 4, 5, 6}, {0, 7, 8, 9}}};
  std::map<std::vector<float>, int> seen;
  for (int i = 0; i < 12000; ++i) ++seen[run(pipeline, counting(shape), {3, 0, i})];
  std::map<std::vector<float>, int> expected;
  for (std::size_t top = 0; top < 4; ++top) {
    for (std::size_t left = 0; left < 3; ++left) {
      expected[{padded[top][left], padded[top][left + 1], padded[top + 1][left], padded[top + 1][left + 1]}] += 1000;
    }
  }
  ASSERT_EQ(seen.size(), expected.size());
  for (const auto& [window, count] : expected) EXPECT_NEAR(seen[window], count, 5 * std::sqrt(count));
}

TEST_P(InBothModes, RescaleThenNormalizeByChannel) {
  const PictureShape shape{2, 1, 2};
  const std::vector<TransformSpec> specs{spec("rescale", {{"scale", 0.5}, {"shift", 1.0}}),
                                         spec("normalize", {{"mean", Numbers{1, 2}}, {"std", Numbers{2, 4}}}),
                                         spec("hwc2chw")};
  EXPECT_EQ(run({specs, shape, GetParam()}, std::vector<std::uint8_t>{0, 10, 20, 255}),
            (std::vector<float>{0, 2.5F, 2.25F, 31.625F}));
}

TEST_P(InBothModes, TypeCastToIntegersDropsTheFraction) {
  const std::vector<TransformSpec> specs{spec("rescale", {{"scale", 0.3}, {"shift", -1.0}}),
                                         spec("type_cast", {{"type", "int32"}}),
                                         spec("type_cast", {{"type", "float32"}}), spec("hwc2chw")};
  EXPECT_EQ(run({specs, {1, 1, 4}, GetParam()}, std::vector<std::uint8_t>{0, 1, 2, 10}),
            (std::vector<float>{-1, -0.0F, -0.0F, 2}));
}

// Expected values: torch.nn.functional.interpolate(mode="bilinear", align_corners=False) of PyTorch 1.13.
TEST_P(InBothModes, ResizeAgreesWithTorch) {
  const PictureShape shape{1, 3, 4};
  const std::vector<std::uint8_t> pixels{0, 37, 74, 10, 47, 84, 20, 57, 94, 30, 67, 3};
  const auto resized = [&](double height, double width) {
    const std::vector<TransformSpec> specs{spec("type_cast", {{"type", "float32"}}),
                                           spec("resize", {{"size", Numbers{height, width}}}), spec("hwc2chw")};
    return run({specs, shape, GetParam()}, pixels);
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

TEST_P(InBothModes, ResizedBytesAreRoundedToNearest) {
  // 1 x 2 to 1 x 4: a, (3a + b) / 4, (a + 3b) / 4, b.
  const Pipeline pipeline = plain({spec("resize", {{"size", Numbers{1, 4}}})}, {1, 1, 2}, GetParam());
  EXPECT_EQ(run(pipeline, std::vector<std::uint8_t>{10, 12}),
            (std::vector<float>{10, 11, 12, 12}));  // 10.5, 11.5: halves up
  EXPECT_EQ(run(pipeline, std::vector<std::uint8_t>{0, 255}), (std::vector<float>{0, 64, 191, 255}));
  EXPECT_EQ(run(pipeline, std::vector<std::uint8_t>{255, 255}), (std::vector<float>{255, 255, 255, 255}));
}

TEST_P(InBothModes, SampleDependsOnSeedEpochAndIndex) {
  const PictureShape shape{3, 32, 32};
  const auto dataset = test::random_dataset(shape, 1, 1);
  const Pipeline pipeline(test::usual_transforms(), shape, GetParam());
  const auto pixels = (*dataset)[0].pixels;
  const auto base = run(pipeline, pixels, {1, 2, 3});
  EXPECT_EQ(run(pipeline, pixels, {1, 2, 3}), base);
  std::set<std::vector<float>> others;
  for (int i = 10; i < 30; ++i) {
    const auto n = static_cast<std::uint64_t>(i);
    others.insert(run(pipeline, pixels, {n, 2, 3}));
    others.insert(run(pipeline, pixels, {1, i, 3}));
    others.insert(run(pipeline, pixels, {1, 2, i}));
  }
  EXPECT_GT(others.size(), 40U) << "of 60 draws among 162 looks";
}

TEST(Pipeline, TwoRandomTransformsDrawApart) {
  const PictureShape shape{1, 1, 2};
  const Pipeline pipeline = plain({spec("random_horizontal_flip"), spec("random_horizontal_flip")}, shape);
  int mirrored = 0;
  for (int i = 0; i < 1000; ++i) mirrored += run(pipeline, counting(shape), {1, 0, i})[0] == 2 ? 1 : 0;
  EXPECT_NEAR(mirrored, 500, 80) << "with the same draw twice it would be 0";
}

TEST(Pipeline, TransformsOnFloatsRunStepByStep) {
  const PictureShape shape{1, 1, 2};
  const std::vector<TransformSpec> specs{spec("rescale", {{"scale", 1.0}, {"shift", 5.0}}),
                                         spec("random_crop", {{"size", Numbers{1, 4}}, {"padding", Numbers{1, 0}}}),
                                         spec("resize", {{"size", Numbers{1, 8}}}), spec("hwc2chw")};
  const Pipeline pipeline(specs, shape);
  EXPECT_FALSE(pipeline.is_fused());
  // Padding comes after the shift, so it is 0 and not 5; nothing is rounded.
  EXPECT_EQ(run(pipeline, std::vector<std::uint8_t>{3, 5}), (std::vector<float>{0, 2, 6, 8.5F, 9.5F, 7.5F, 2.5F, 0}));
}

// One random chain of transforms that can be fused.
std::vector<TransformSpec> random_chain(RandomStream& random, PictureShape shape) {
  std::vector<TransformSpec> specs;
  const auto number = [&](int low, int high) {
    return static_cast<double>(low) + static_cast<double>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  const auto add_moves = [&] {
    for (auto n = random.below(4); n > 0; --n) {
      if (random.below(2) == 0) {
        specs.push_back(spec("random_horizontal_flip"));
        continue;
      }
      const Numbers pads{number(0, 5), number(0, 5), number(0, 5), number(0, 5)};
      const double height = number(1, shape.height + static_cast<int>(pads[1] + pads[3]));
      const double width = number(1, shape.width + static_cast<int>(pads[0] + pads[2]));
      specs.push_back(spec("random_crop", {{"size", Numbers{height, width}}, {"padding", pads}}));
      shape = {shape.channels, static_cast<int>(height), static_cast<int>(width)};
    }
  };
  add_moves();
  if (random.below(2) == 0) {
    shape = {shape.channels, static_cast<int>(number(1, 40)), static_cast<int>(number(1, 40))};
    specs.push_back(
        spec("resize", {{"size", Numbers{static_cast<double>(shape.height), static_cast<double>(shape.width)}}}));
    add_moves();
  }
  if (random.below(2) == 0) specs.push_back(spec("hwc2chw"));
  specs.push_back(spec("rescale", {{"scale", random.uniform(-1, 1)}, {"shift", random.uniform(-10, 10)}}));
  if (random.below(3) == 0) specs.push_back(spec("type_cast", {{"type", "int32"}}));
  const Numbers mean(static_cast<std::size_t>(shape.channels), random.uniform(-1, 1));
  specs.push_back(spec("normalize", {{"mean", mean}, {"std", random.uniform(0.1, 2)}}));
  if (std::none_of(specs.begin(), specs.end(), [](const auto& s) { return s.name == "hwc2chw"; })) {
    specs.push_back(spec("hwc2chw"));
  }
  return specs;
}

TEST(Pipeline, FusedAndStepByStepAgreeToTheLastBit) {
  RandomStream random(2024, RandomPurpose::transform, {});
  for (int trial = 0; trial < 400; ++trial) {
    const PictureShape shape{static_cast<int>(1 + random.below(3)), static_cast<int>(1 + random.below(20)),
                             static_cast<int>(1 + random.below(20))};
    const auto dataset = test::random_dataset(shape, 1, random.next());
    const auto specs = random_chain(random, shape);
    const Pipeline fused(specs, shape);
    const Pipeline plain_steps(specs, shape, PipelineMode::step_by_step);
    ASSERT_TRUE(fused.is_fused());
    ASSERT_FALSE(plain_steps.is_fused());
    for (int i = 0; i < 5; ++i) {
      const auto a = run(fused, (*dataset)[0].pixels, {7, trial, i});
      const auto b = run(plain_steps, (*dataset)[0].pixels, {7, trial, i});
      ASSERT_EQ(a.size(), b.size());
      ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << fused.describe();
    }
  }
}

TEST(Pipeline, UsualChainsAgreeToTheLastBit) {
  const PictureShape shape{3, 32, 32};
  const auto dataset = test::random_dataset(shape, 20, 5);
  for (const bool large : {false, true}) {
    auto specs = test::usual_transforms();
    if (large) specs.insert(specs.begin() + 2, spec("resize", {{"size", 224.0}}));
    const Pipeline fused(specs, shape);
    const Pipeline plain_steps(specs, shape, PipelineMode::step_by_step);
    for (int i = 0; i < 20; ++i) {
      const auto a = run(fused, (*dataset)[i].pixels, {1, 0, i});
      const auto b = run(plain_steps, (*dataset)[i].pixels, {1, 0, i});
      ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << fused.describe();
    }
  }
}

}  // namespace
}  // namespace lockstep::data
