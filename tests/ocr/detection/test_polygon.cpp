// Polygons: sizes, offsets and overlaps, with the numbers of Clipper in Python.
#include <apps/ocr/detection/polygon.h>
#include <apps/ocr/detection/targets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

using ocr::Polygon;
using testing::ElementsAre;
using Point = cv::Point2d;

const Polygon kRectangle{{100, 100}, {300, 100}, {300, 140}, {100, 140}};
const Polygon kQuad{{310, 104}, {416, 141}, {418, 216}, {312, 179}};

TEST(Polygons, HaveAreaAndPerimeter) {
  EXPECT_DOUBLE_EQ(ocr::area(kQuad), 7876);
  EXPECT_NEAR(ocr::perimeter(kQuad), 374.5973062, 1e-7);
  EXPECT_DOUBLE_EQ(ocr::area({}), 0);
  EXPECT_NEAR(ocr::shrink_distance(kQuad, 0.4), 17.6612055, 1e-7);
  EXPECT_DOUBLE_EQ(ocr::shrink_distance(kRectangle, 0.4), 14);
}

TEST(Polygons, AreMovedAsClipperMovesThem) {
  const auto shrunk = ocr::offset(kRectangle, -14);
  ASSERT_EQ(shrunk.size(), 1U);
  EXPECT_THAT(shrunk[0],
              testing::UnorderedElementsAre(Point(114, 114), Point(286, 114), Point(286, 126), Point(114, 126)));
  const auto grown = ocr::offset(kRectangle, 25);
  ASSERT_EQ(grown.size(), 1U);
  EXPECT_EQ(grown[0].size(), 24U);
  const auto quad = ocr::offset(kQuad, -ocr::shrink_distance(kQuad, 0.4));
  ASSERT_EQ(quad.size(), 1U);
  EXPECT_THAT(quad[0], ElementsAre(Point(398, 154), Point(399, 190), Point(330, 166), Point(329, 130)));
  EXPECT_EQ(ocr::offset(kQuad, ocr::shrink_distance(kQuad, 0.4))[0].size(), 24U);
}

TEST(Polygons, OfAConcaveWordFallApart) {
  const Polygon notched{{0, 0}, {100, 0}, {100, 40}, {60, 40}, {50, 12}, {40, 40}, {0, 40}};
  const auto pieces = ocr::offset(notched, -ocr::shrink_distance(notched, 0.4));
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_THAT(pieces[0], ElementsAre(Point(90, 30), Point(66, 30), Point(59, 10), Point(90, 10)));
}

TEST(Polygons, AreCutTowardZero) {
  const auto corners = ocr::cut_corners({{-3.7, 2.9}, {-0.5, -1.0}});
  EXPECT_THAT(corners, ElementsAre(cv::Point(-3, 2), cv::Point(0, -1)));
}

TEST(Polygons, OverlapWhereBothAre) {
  const Polygon a{{0, 0}, {10, 0}, {10, 10}, {0, 10}}, b{{5, 5}, {15, 5}, {15, 15}, {5, 15}};
  EXPECT_DOUBLE_EQ(ocr::overlap(a, b), 25);
  EXPECT_DOUBLE_EQ(ocr::overlap(a, a), 100);
  Polygon other_way(b.rbegin(), b.rend());
  EXPECT_DOUBLE_EQ(ocr::overlap(a, other_way), 25);
  EXPECT_DOUBLE_EQ(ocr::overlap(a, {{20, 0}, {30, 0}, {30, 10}}), 0);
  EXPECT_DOUBLE_EQ(ocr::overlap(a, {}), 0);
  // A third of a pixel.
  EXPECT_NEAR(ocr::overlap(a, {{0, 0}, {1.0 / 3, 0}, {1.0 / 3, 1}, {0, 1}}), 1.0 / 3, 1e-3);
}

TEST(Polygons, AreSimpleUnlessEdgesMeet) {
  EXPECT_TRUE(ocr::is_simple(kQuad));
  EXPECT_TRUE(ocr::is_simple({{0, 0}, {10, 0}, {10, 10}, {10, 10}}));           // the last corner repeated
  EXPECT_FALSE(ocr::is_simple({{0, 0}, {10, 10}, {10, 0}, {0, 10}}));           // crosses itself
  EXPECT_FALSE(ocr::is_simple({{0, 0}, {10, 0}, {5, 0}}));                      // no area
  EXPECT_FALSE(ocr::is_simple({{0, 0}, {10, 0}, {10, 10}, {10, 0}, {0, 10}}));  // there and back
  EXPECT_FALSE(ocr::is_simple({{0, 0}, {10, 0}, {10, 10}, {5, 0}, {0, 10}}));   // a corner on another edge
  EXPECT_FALSE(ocr::is_simple({{0, 0}, {1, 1}}));
}

TEST(Polygons, HaveDistancesToTheirEdges) {
  EXPECT_DOUBLE_EQ(ocr::distance_to_segment({5, 3}, {0, 0}, {10, 0}), 3);
  EXPECT_DOUBLE_EQ(ocr::distance_to_segment({13, 4}, {0, 0}, {10, 0}), 5);
  EXPECT_DOUBLE_EQ(ocr::distance_to_segment({3, 4}, {0, 0}, {0, 0}), 5);
}

TEST(Polygons, ThatCrossThemselvesArePutInOrderOrRefused) {
  const ocr::Polygon square{{10, 10}, {50, 10}, {50, 30}, {10, 30}};
  EXPECT_EQ(ocr::untangled(square), square);
  const auto mended = ocr::untangled({{10, 10}, {50, 30}, {50, 10}, {10, 30}});  // a bow tie
  ASSERT_TRUE(mended);
  EXPECT_TRUE(ocr::is_simple(*mended));
  EXPECT_EQ(ocr::area(*mended), 800);
  EXPECT_EQ(mended->front(), cv::Point2d(10, 10));
  // Eleven corners of a bent word, the last of which went a little too far.
  const auto bent =
      ocr::untangled({{0, 0}, {40, 0}, {80, 0}, {80, 20}, {40, 20}, {2, 20}, {2, 22}, {-1, 10}, {1, 9}, {-1, 8}});
  ASSERT_TRUE(bent);
  EXPECT_TRUE(ocr::is_simple(*bent));
  EXPECT_NEAR(ocr::area(*bent), 1600, 60);
  // Two halves of which none is nearly all.
  EXPECT_FALSE(ocr::untangled({{0, 0}, {20, 0}, {40, 0}, {0, 40}, {20, 40}, {40, 40}}));
  EXPECT_FALSE(ocr::untangled({{0, 0}, {20, 20}, {40, 40}, {20, 20}}));  // no area
  EXPECT_EQ(ocr::area(ocr::convex_around({{0, 0}, {20, 20}, {0, 20}, {20, 0}})), 400);
}

}  // namespace
}  // namespace lockstep::test
