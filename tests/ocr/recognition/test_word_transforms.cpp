// The transforms of pictures of words.
#include <apps/ocr/recognition/word_transforms.h>
#include <lockstep/base/config.h>
#include <lockstep/samples/pictures.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using Sizes = std::vector<std::int64_t>;

at::Tensor transformed(const at::Tensor& picture, const std::string& list) {
  auto parts = samples::shipped_transforms();
  for (auto& part : ocr::word_transforms()) parts.push_back(part);
  const auto node = *parse_config("list: " + list, "test.yaml").root.find("list");
  const auto transform = samples::transforms_of(node, "data.train_transforms", parts);
  return transform({{{samples::kPictures, picture}}}, samples::Chance(0, 0, 0)).tensors.at(samples::kPictures);
}

at::Tensor picture_of(std::int64_t height, std::int64_t width) {
  return torch::arange(height * width * 3).remainder(251).to(torch::kByte).view({height, width, 3});
}

TEST(WordTransforms, StretchAndNormalize) {
  const auto out =
      transformed(picture_of(20, 50), "[resize: {size: [32, 100]}, normalize: {mean: 127, std: 127}, hwc2chw]");
  EXPECT_EQ(out.sizes(), (Sizes{3, 32, 100}));
  EXPECT_GE(out.min().item<float>(), -1.0F);
  EXPECT_LE(out.max().item<float>(), 128.0F / 127);
}

TEST(WordTransforms, ATallPictureIsTurnedAgainstTheClock) {
  const auto tall = picture_of(9, 4);
  const auto turned = transformed(tall, "[turn_tall]");
  ASSERT_EQ(turned.sizes(), (Sizes{4, 9, 3}));
  EXPECT_TRUE(torch::equal(turned[3][0], tall[0][0]));  // what was above is at the left, the left one below
  EXPECT_TRUE(torch::equal(turned[0][0], tall[0][3]));
  EXPECT_TRUE(torch::equal(transformed(picture_of(8, 4), "[turn_tall]"), picture_of(8, 4)));
}

TEST(WordTransforms, AKeptRatioIsFilledUpWithBlack) {
  const auto out = transformed(torch::full({16, 40, 3}, 200, torch::kByte), "[resize_to_height: {size: [32, 320]}]");
  ASSERT_EQ(out.sizes(), (Sizes{32, 320, 3}));
  EXPECT_TRUE(out.narrow(1, 0, 80).eq(200).all().item<bool>());
  EXPECT_TRUE(out.narrow(1, 80, 240).eq(0).all().item<bool>());
  const auto wide = transformed(torch::full({10, 400, 3}, 200, torch::kByte), "[resize_to_height: {size: [32, 320]}]");
  EXPECT_TRUE(wide.eq(200).all().item<bool>());
  expect_error(ErrorKind::config, {"size", "2"},
               [] { transformed(picture_of(4, 4), "[resize_to_height: {size: [32]}]"); });
}

}  // namespace
}  // namespace lockstep::test
