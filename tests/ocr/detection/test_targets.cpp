// The maps that DBNet is trained with.
#include <apps/ocr/detection/targets.h>
#include <gtest/gtest.h>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <limits>

namespace lockstep::test {
namespace {

using ocr::Polygon;
using ocr::Word;

Polygon rectangle(double x1, double y1, double x2, double y2) { return {{x1, y1}, {x2, y1}, {x2, y2}, {x1, y2}}; }

TEST(ShrinkMap, HasShrunkWordsAndCountsWhereTheyCanBeRead) {
  ocr::Words words{{rectangle(100, 100, 300, 140)},
                   {rectangle(10, 10, 30, 18)},
                   {rectangle(200, 10, 250, 40), true},
                   {rectangle(10, 60, 30, 67)}};
  const auto map = ocr::shrink_map(words, 200, 320, {});
  // Both ends are filled: 173 x 13 and 17 x 5 pixels.
  EXPECT_EQ(cv::countNonZero(map.text(cv::Rect(114, 114, 173, 13))), 173 * 13);
  EXPECT_EQ(cv::countNonZero(map.text), 173 * 13 + 17 * 5);
  EXPECT_EQ(map.text.at<std::uint8_t>(12, 12), 1);
  // The word that is ignored, and the one of 7 pixels, do not count.
  EXPECT_EQ(cv::countNonZero(map.mask == 0), 51 * 31 + 21 * 8);
  EXPECT_FALSE(words[1].ignored);
  EXPECT_TRUE(words[2].ignored);
  EXPECT_TRUE(words[3].ignored);
}

TEST(ShrinkMap, IgnoresWordsOfWhichNothingIsLeft) {
  ocr::Words words{{{{0, 0}, {100, 100}, {100, 104}, {0, 4}}}};  // thin, in a large box
  const auto map = ocr::shrink_map(words, 120, 120, {});
  EXPECT_TRUE(words[0].ignored);
  EXPECT_EQ(cv::countNonZero(map.text), 0);
  EXPECT_EQ(map.mask.at<std::uint8_t>(52, 50), 0);
}

TEST(ShrinkMap, AWordThatFallsApartIsTextInEachPiece) {
  ocr::Words words{{{{0, 0}, {100, 0}, {100, 40}, {60, 40}, {50, 12}, {40, 40}, {0, 40}}}};
  const auto map = ocr::shrink_map(words, 60, 120, {});
  ASSERT_EQ(ocr::offset(words[0].polygon, -ocr::shrink_distance(words[0].polygon, 0.4)).size(), 2U);
  EXPECT_EQ(map.text.at<std::uint8_t>(20, 80), 1);
  EXPECT_EQ(map.text.at<std::uint8_t>(20, 20), 1);
  EXPECT_EQ(map.text.at<std::uint8_t>(20, 50), 0);
}

TEST(ShrinkMap, ShapesWithoutAreaAreIgnored) {
  ocr::Words words{{{{10, 10}, {60, 40}, {60, 40}, {10, 10}}},   // a line there and back
                   {{{10, 50}, {60, 90}, {60, 50}, {10, 90}}}};  // a bow tie whose halves cancel out
  const auto map = ocr::shrink_map(words, 100, 100, {});
  EXPECT_TRUE(words[0].ignored);
  EXPECT_TRUE(words[1].ignored);
  EXPECT_EQ(cv::countNonZero(map.text), 0);
  EXPECT_EQ(map.mask.at<std::uint8_t>(25, 35), 0);
}

TEST(Maps, AreTheSameInBothDirectionsOfCorners) {
  const Polygon word{{310, 104}, {416, 141}, {418, 216}, {312, 179}};
  ocr::Words one{{word}}, other{{Polygon(word.rbegin(), word.rend())}};
  const auto shrunk = ocr::shrink_map(one, 300, 500, {}), turned = ocr::shrink_map(other, 300, 500, {});
  EXPECT_GT(cv::countNonZero(shrunk.text), 0);
  EXPECT_EQ(cv::countNonZero(shrunk.text != turned.text), 0);
  const auto border = ocr::border_map(one, 300, 500, {}), around = ocr::border_map(other, 300, 500, {});
  EXPECT_EQ(cv::countNonZero(border.mask != around.mask), 0);
  EXPECT_LT(cv::norm(border.threshold, around.threshold, cv::NORM_INF), 1e-6);
}

// By the definition, over the whole picture.
float threshold_at(const ocr::Words& words, int x, int y, const cv::Size& size) {
  double highest = 0;
  for (const auto& word : words) {
    if (word.ignored) continue;
    const double reach = ocr::shrink_distance(word.polygon, 0.4);
    const auto grown = ocr::offset(word.polygon, reach).front();
    const auto box = ocr::bounds(grown);
    if (x < box.x || y < box.y || x > box.x + box.width || y > box.y + box.height) continue;
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < word.polygon.size(); ++i) {
      nearest = std::min(nearest, ocr::distance_to_segment({1.0 * x, 1.0 * y}, word.polygon[i],
                                                           word.polygon[(i + 1) % word.polygon.size()]));
    }
    highest = std::max(highest, 1 - std::min(1.0, nearest / reach));
  }
  EXPECT_TRUE(x < size.width && y < size.height);
  return static_cast<float>(0.3 + 0.4 * highest);
}

TEST(BorderMap, IsHighOnEdgesAndLowFarFromThem) {
  // One inside, one that reaches over the picture's corner, one over the first, one ignored.
  const ocr::Words words{{rectangle(30, 20, 90, 50)},
                         {{{100, 70}, {140, 60}, {150, 90}, {110, 100}}},
                         {rectangle(80, 30, 110, 60)},
                         {rectangle(5, 60, 40, 75), true}};
  const auto map = ocr::border_map(words, 80, 120, {});
  for (int y = 0; y < 80; ++y) {
    for (int x = 0; x < 120; ++x) {
      ASSERT_NEAR(map.threshold.at<float>(y, x), threshold_at(words, x, y, map.threshold.size()), 1e-6)
          << x << ' ' << y;
    }
  }
  EXPECT_FLOAT_EQ(map.threshold.at<float>(20, 40), 0.7F);
  EXPECT_FLOAT_EQ(map.threshold.at<float>(0, 0), 0.3F);
  EXPECT_EQ(map.mask.at<std::uint8_t>(35, 60), 1);
  EXPECT_EQ(map.mask.at<std::uint8_t>(68, 20), 0);
}

}  // namespace
}  // namespace lockstep::test
