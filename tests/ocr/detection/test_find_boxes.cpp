// From maps of probabilities to words.
#include <apps/ocr/detection/find_boxes.h>
#include <apps/ocr/detection/match_words.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <opencv2/imgproc.hpp>

#include <cmath>

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using Point = cv::Point2d;

cv::Mat map_with(const std::vector<std::pair<cv::Rect, float>>& words, int height = 120, int width = 200) {
  cv::Mat map = cv::Mat::zeros(height, width, CV_32F);
  for (const auto& [box, value] : words) map(box).setTo(value);
  return map;
}

const ocr::Frame kSame{.height = 120, .width = 200};

TEST(FindWords, GrowsTheBoxAroundAPatch) {
  const auto words = ocr::find_words(map_with({{{20, 30, 61, 11}, 0.9F}}), kSame, {});
  ASSERT_EQ(words.size(), 1U);
  EXPECT_NEAR(words[0].score, 0.9, 1e-6);
  // 60 x 10 grows by 1.5 * 600 / 140 = 6.43 on each side.
  EXPECT_THAT(words[0].polygon, ElementsAre(Point(14, 24), Point(86, 24), Point(86, 46), Point(14, 46)));
}

TEST(FindWords, LeavesOutWhatIsFaintOrSmall) {
  EXPECT_TRUE(ocr::find_words(map_with({{{20, 30, 60, 10}, 0.5F}}), kSame, {}).empty());
  EXPECT_EQ(ocr::find_words(map_with({{{20, 30, 60, 10}, 0.5F}}), kSame, {.box_threshold = 0.4}).size(), 1U);
  EXPECT_TRUE(ocr::find_words(map_with({{{20, 30, 60, 3}, 0.9F}}), kSame, {}).empty());  // 2 from middle to middle
  EXPECT_TRUE(ocr::find_words(map_with({{{20, 30, 60, 10}, 0.29F}}), kSame, {.box_threshold = 0}).empty());
  EXPECT_EQ(
      ocr::find_words(map_with({{{20, 30, 60, 10}, 0.3F}}), kSame, {.map_threshold = 0.25, .box_threshold = 0}).size(),
      1U);
  EXPECT_TRUE(ocr::find_words(map_with({}), kSame, {}).empty());
}

TEST(FindWords, TakesTheFirstContoursAlone) {
  const auto map = map_with({{{5, 5, 40, 10}, 0.9F}, {{5, 45, 40, 10}, 0.9F}, {{5, 85, 40, 10}, 0.9F}});
  EXPECT_EQ(ocr::find_words(map, kSame, {}).size(), 3U);
  EXPECT_EQ(ocr::find_words(map, kSame, {.most_words = 2}).size(), 2U);
}

TEST(FindWords, GivesPixelsOfTheFileInItsBounds) {
  const ocr::Frame frame{.height = 60, .width = 400, .y_factor = 2, .x_factor = 0.5};
  const auto words = ocr::find_words(map_with({{{20, 30, 61, 11}, 0.9F}, {{150, 100, 50, 20}, 0.9F}}), frame, {});
  ASSERT_EQ(words.size(), 2U);
  EXPECT_THAT(words[1].polygon, ElementsAre(Point(28, 12), Point(172, 12), Point(172, 23), Point(28, 23)));
  for (const auto& corner : words[0].polygon) {
    EXPECT_LE(corner.x, 399);
    EXPECT_LE(corner.y, 59);
  }
}

TEST(FindWords, FollowTheOutlineAsPolygons) {
  cv::Mat map = cv::Mat::zeros(120, 200, CV_32F);
  const std::vector<cv::Point> bent{{20, 20}, {100, 60}, {180, 20}, {180, 40}, {100, 80}, {20, 40}};
  cv::fillPoly(map, std::vector<std::vector<cv::Point>>{bent}, cv::Scalar(0.9));
  const auto words = ocr::find_words(map, kSame, {.shape = "polygon"});
  ASSERT_EQ(words.size(), 1U);
  EXPECT_GE(words[0].polygon.size(), 6U);
  EXPECT_LT(ocr::area(words[0].polygon), 9000);  // its upright box has more than 12000
}

TEST(FittedBoxes, BeginAtTheUpperLeft) {
  const auto box = ocr::fit_box({{10, 50}, {50, 10}, {90, 50}, {50, 90}});  // standing on a corner
  EXPECT_EQ(box.corners.size(), 4U);
  EXPECT_NEAR(box.shorter_side, 56.57, 0.01);
  auto flat = ocr::fit_box({{0, 0}, {100, 0}, {100, 20}, {0, 20}}).corners;
  for (auto& corner : flat) corner = {std::nearbyint(corner.x), std::nearbyint(corner.y)};
  EXPECT_THAT(flat, ElementsAre(Point(0, 0), Point(100, 0), Point(100, 20), Point(0, 20)));
}

}  // namespace
}  // namespace lockstep::test
