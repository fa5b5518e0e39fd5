// Cuts of words by a perspective transform of their quadrangle (OpenCV, bicubic), tall ones turned.
#include <apps/ocr/reading/word_crops.h>

#include <apps/ocr/detection/find_boxes.h>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::ocr {
namespace {

constexpr double kUpright = 1.5;

float length(const cv::Point2f& a, const cv::Point2f& b) { return std::hypot(a.x - b.x, a.y - b.y); }

}  // namespace

cv::Mat cut_word(const cv::Mat& photograph, const Polygon& word) {
  const auto quad = word.size() == 4 ? word : fit_box(cut_corners(word)).corners;
  std::array<cv::Point2f, 4> from;
  std::ranges::copy(quad, from.begin());
  const float width = std::max(1.0F, std::floor(std::max(length(from[0], from[1]), length(from[2], from[3]))));
  const float height = std::max(1.0F, std::floor(std::max(length(from[0], from[3]), length(from[1], from[2]))));
  const std::array<cv::Point2f, 4> to{cv::Point2f(0, 0), cv::Point2f(width, 0), cv::Point2f(width, height),
                                      cv::Point2f(0, height)};
  cv::Mat cut;
  cv::warpPerspective(photograph, cut, cv::getPerspectiveTransform(from.data(), to.data()),
                      {static_cast<int>(width), static_cast<int>(height)}, cv::INTER_CUBIC, cv::BORDER_REPLICATE);
  if (cut.rows >= kUpright * cut.cols) cv::rotate(cut, cut, cv::ROTATE_90_COUNTERCLOCKWISE);
  return cut;
}

}  // namespace lockstep::ocr
