// Steps that change a photograph and the polygons of its words together.
#include <apps/ocr/detection/picture_geometry.h>
#include <apps/ocr/detection/text_transforms.h>
#include <apps/ocr/detection/word_tensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/data/sampler.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/samples/pictures.h>

#include <torch/torch.h>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <deque>
#include <set>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using ocr::TextPicture;
using samples::Chance;
using samples::Sample;

/// Black, with each word filled in white, so that pixels show where words went.
TextPicture with_words(int height, int width, std::vector<cv::Rect> boxes) {
  TextPicture picture{cv::Mat::zeros(height, width, CV_8UC3), {}};
  for (const auto& box : boxes) {
    picture.pixels(box).setTo(cv::Scalar(255, 255, 255));
    const double x1 = box.x, y1 = box.y, x2 = box.x + box.width - 1, y2 = box.y + box.height - 1;
    picture.words.push_back({{{x1, y1}, {x2, y1}, {x2, y2}, {x1, y2}}});
  }
  return picture;
}

/// The share of the pixels inside of a word's polygon that are white.
double whiteness(const TextPicture& picture, const ocr::Word& word) {
  cv::Mat inside = cv::Mat::zeros(picture.pixels.size(), CV_8U);
  cv::fillPoly(inside, std::vector<std::vector<cv::Point>>{ocr::cut_corners(word.polygon)}, cv::Scalar(1));
  return cv::mean(picture.pixels, inside)[0] / 255;
}

TEST(TextGeometry, WordsGoWithTheirPixels) {
  const auto original = with_words(100, 160, {{20, 30, 50, 20}, {90, 60, 40, 25}});
  const auto expect_white = [](const TextPicture& picture) {
    for (const auto& word : picture.words) EXPECT_GT(whiteness(picture, word), 0.9);
  };
  auto picture = original;
  ocr::mirror(picture);
  expect_white(picture);
  EXPECT_EQ(picture.words[0].polygon[3], cv::Point2d(159 - 20, 30));
  picture = original;
  ocr::rotate(picture, 9);
  expect_white(picture);
  EXPECT_LT(picture.words[1].polygon[1].y, picture.words[1].polygon[0].y);  // counter-clockwise
  EXPECT_EQ(picture.pixels.size(), original.pixels.size());
  picture = original;
  ocr::scale(picture, 2.5);
  expect_white(picture);
  EXPECT_EQ(picture.pixels.size(), cv::Size(400, 250));
  picture = original;
  ocr::stretch(picture, 64, 320);
  expect_white(picture);
  picture = original;
  ocr::crop(picture, {10, 20, 140, 70}, {.height = 96, .width = 96}, 1);
  expect_white(picture);
  EXPECT_EQ(picture.pixels.size(), cv::Size(96, 96));
  EXPECT_EQ(cv::countNonZero(picture.pixels.reshape(1)(cv::Rect(0, 48, 288, 48))), 0);  // filled up with black
}

TEST(TextGeometry, SizesAreRoundedHalfToEven) {
  auto picture = with_words(5, 15, {});
  ocr::scale(picture, 0.5);
  EXPECT_EQ(picture.pixels.size(), cv::Size(8, 2));  // 7.5, 2.5
}

TEST(TextCrops, CutThroughNoWord) {
  const auto picture = with_words(200, 300, {{20, 30, 50, 20}, {120, 90, 60, 25}, {220, 150, 40, 30}});
  int smaller = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    data::RandomStream stream(seed, data::RandomPurpose::synthesize, {});
    const auto window = ocr::crop_window(picture, {}, [&](std::uint64_t below) { return stream.below(below); });
    smaller += window.area() < 200 * 300 ? 1 : 0;
    EXPECT_GE(window.width, 30);
    EXPECT_GE(window.height, 20);
    int inside = 0;
    for (const auto& word : picture.words) {
      const auto box = ocr::bounds(word.polygon);
      const bool in_x = box.x >= window.x && box.x + box.width < window.x + window.width;
      const bool in_y = box.y >= window.y && box.y + box.height < window.y + window.height;
      const bool out_x = box.x + box.width < window.x || box.x >= window.x + window.width;
      const bool out_y = box.y + box.height < window.y || box.y >= window.y + window.height;
      EXPECT_TRUE((in_x || out_x) && (in_y || out_y)) << seed;
      inside += in_x && in_y ? 1 : 0;
    }
    EXPECT_GE(inside, 1);
  }
  EXPECT_GT(smaller, 190);
}

TEST(TextCrops, TakeTheWholePictureWhereThereIsNothingToChoose) {
  const auto draw = [](std::uint64_t below) { return below - 1; };  // always the last line: windows without size
  auto picture = with_words(50, 80, {{20, 10, 20, 10}});
  EXPECT_EQ(ocr::crop_window(picture, {}, draw), cv::Rect(0, 0, 80, 50));
  picture.words[0].ignored = true;
  EXPECT_EQ(ocr::crop_window(picture, {}, [](std::uint64_t) -> std::uint64_t { throw 1; }), cv::Rect(0, 0, 80, 50));
  const auto full = with_words(50, 80, {{0, 10, 80, 10}});  // no free column
  EXPECT_EQ(ocr::crop_window(full, {}, draw), cv::Rect(0, 0, 80, 50));
}

TEST(TextCrops, DrawRowsThenColumns) {
  const auto picture = with_words(50, 80, {{20, 10, 20, 10}});  // rows 10-19, columns 20-39 are covered
  std::deque<std::uint64_t> draws{39, 0, 2, 59};
  const auto window = ocr::crop_window(picture, {}, [&](std::uint64_t below) {
    const auto next = draws.front();
    draws.pop_front();
    EXPECT_LT(next, below);
    return next;
  });
  EXPECT_EQ(window, cv::Rect(2, 0, 79 - 2, 49));
}

TEST(TextCrops, CanKeepTheScale) {
  const auto picture = with_words(200, 300, {{20, 10, 40, 12}, {250, 170, 30, 10}});
  const ocr::CropOptions options{.height = 64, .width = 80, .tries = 1000, .keep_scale = true};
  std::set<int> lefts;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    data::RandomStream stream(seed, data::RandomPurpose::synthesize, {});
    const auto window = ocr::crop_window(picture, options, [&](std::uint64_t below) { return stream.below(below); });
    EXPECT_EQ(window.size(), cv::Size(80, 64));
    EXPECT_EQ(window & cv::Rect(0, 0, 300, 200), window);
    const bool first = (window & cv::Rect(20, 10, 39, 11)) == cv::Rect(20, 10, 39, 11);
    const bool second = (window & cv::Rect(250, 170, 29, 9)) == cv::Rect(250, 170, 29, 9);
    EXPECT_TRUE(first || second) << window;  // whole, from corner to corner, as there is a place for that
    lefts.insert(window.x);
  }
  EXPECT_GT(lefts.size(), 10U);
  // No place cuts through nothing, or touches by chance: around a word.
  const auto wide = with_words(200, 300, {{0, 90, 300, 20}});
  const auto around = ocr::crop_window(wide, {.height = 64, .width = 80, .tries = 1, .keep_scale = true},
                                       [](std::uint64_t) { return std::uint64_t{0}; });
  EXPECT_EQ(around, cv::Rect(109, 67, 80, 64));
  // A picture that is smaller is filled up.
  auto small = with_words(40, 50, {{5, 5, 20, 10}});
  const auto whole = ocr::crop_window(small, options, [](std::uint64_t) { return std::uint64_t{0}; });
  EXPECT_EQ(whole, cv::Rect(0, 0, 50, 40));
  ocr::crop(small, whole, options, 1);
  EXPECT_EQ(small.pixels.size(), cv::Size(80, 64));
  EXPECT_EQ(small.words[0].polygon[0], cv::Point2d(5, 5));
}

TEST(TextCrops, KeepTheWordsThatTheyShow) {
  auto picture = with_words(100, 100, {{10, 10, 20, 10}, {60, 60, 20, 10}, {39, 10, 10, 10}});
  ocr::crop(picture, {0, 0, 40, 40}, {.height = 80, .width = 80}, 1000);
  ASSERT_EQ(picture.words.size(), 2U);    // the second is outside
  EXPECT_TRUE(picture.words[0].ignored);  // 684 pixels are fewer than 1000
  EXPECT_TRUE(picture.words[1].ignored);
  EXPECT_EQ(picture.words[0].polygon[0], cv::Point2d(20, 20));
  EXPECT_EQ(picture.words[1].polygon[1].x, 96);  // not clipped
}

Sample sample_of(const TextPicture& picture) {
  Sample sample;
  sample.tensors.emplace(samples::kPictures, ocr::to_tensor(picture.pixels).clone());
  ocr::set_words(sample, picture.words);
  return sample;
}

samples::Transform list_of(const std::string& yaml) {
  return samples::transforms_of(parse_config("steps: " + yaml, "test").root.entries.front().value, "steps",
                                ocr::text_transforms());
}

TEST(TextTransforms, DependOnSeedEpochAndIndexAlone) {
  const auto steps = list_of(
      "[text_random_flip, text_random_rotate, text_random_scale: {range: [0.5, 2]}, text_random_crop: {size: 64}, "
      "text_shrink_map, text_border_map]");
  const auto picture = with_words(100, 160, {{20, 30, 50, 20}, {90, 60, 40, 25}});
  const auto once = steps(sample_of(picture), Chance(1, 2, 3)), again = steps(sample_of(picture), Chance(1, 2, 3));
  for (const auto& [name, tensor] : once.tensors) EXPECT_TRUE(torch::equal(tensor, again.tensors.at(name))) << name;
  EXPECT_FALSE(torch::equal(once.tensors.at(samples::kPictures),
                            steps(sample_of(picture), Chance(1, 2, 4)).tensors.at(samples::kPictures)));
  EXPECT_EQ(once.tensors.at(ocr::kTextMap).sizes(), (std::vector<std::int64_t>{64, 64}));
  EXPECT_EQ(once.tensors.at(ocr::kTextMap).scalar_type(), torch::kByte);
  EXPECT_EQ(once.tensors.at(ocr::kThresholdMap).scalar_type(), torch::kFloat);
}

TEST(TextTransforms, ResizeSaysHowPixelsMoved) {
  const auto frame_after = [](const std::string& yaml) {
    return list_of(yaml)(sample_of(with_words(100, 160, {{20, 30, 50, 20}})), Chance(0, 0, 0)).tensors.at(ocr::kFrame);
  };
  EXPECT_TRUE(torch::equal(frame_after("[text_resize: {size: [50, 320]}]"),
                           torch::tensor({100.0, 160.0, 0.5, 2.0}, torch::kDouble)));
  // Half of 100 and 160, to multiples of 32: 64 and (2.5 units, half to even) 64.
  EXPECT_TRUE(torch::allclose(frame_after("[text_resize: {longest: 80, multiple: 32}]"),
                              torch::tensor({100.0, 160.0, 0.64, 0.4}, torch::kDouble)));
}

TEST(TextTransforms, WorkOnPicturesWithoutWords) {
  Sample bare;
  bare.tensors.emplace(samples::kPictures, torch::zeros({40, 60, 3}, torch::kByte));
  const auto after = list_of("[text_resize: {size: [32, 64]}, text_shrink_map]")(bare, Chance(0, 0, 0));
  EXPECT_EQ(after.tensors.at(samples::kPictures).sizes(), (std::vector<std::int64_t>{32, 64, 3}));
  EXPECT_FALSE(after.tensors.contains(ocr::kTextMap));
}

TEST(TextTransforms, RefusePicturesWithAClassInsteadOfWords) {
  Sample classified;
  classified.tensors.emplace(samples::kPictures, torch::zeros({32, 32, 3}, torch::kByte));
  classified.tensors.emplace(samples::kLabels, torch::tensor(3));
  for (const auto* list :
       {"[text_resize: {size: [32, 64]}]", "[text_random_flip]", "[text_shrink_map]", "[text_border_map]"}) {
    expect_error(ErrorKind::config, {"[steps]", "one class for each picture", "data.name=text_boxes"},
                 [&] { list_of(list)(classified, Chance(0, 0, 0)); });
  }
}

TEST(TextTransforms, RefuseValuesThatCannotBe) {
  expect_error(ErrorKind::config, {"least < end"}, [] { list_of("[text_random_rotate: {degrees: [5, 5]}]"); });
  expect_error(ErrorKind::config, {"range"}, [] { list_of("[text_random_scale: {range: [3, 1]}]"); });
  expect_error(ErrorKind::config, {"[height, width]"}, [] { list_of("[text_resize: {size: [1, 2, 3]}]"); });
}

}  // namespace
}  // namespace lockstep::test
