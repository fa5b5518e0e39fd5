// Geometry of photographs with words (OpenCV): flip, rotation, scaling, and crops that cut no word where possible.
#include <apps/ocr/detection/picture_geometry.h>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::ocr {
namespace {

void for_each_corner(Words& words, const std::function<void(cv::Point2d&)>& change) {
  for (auto& word : words) std::for_each(word.polygon.begin(), word.polygon.end(), change);
}

/// The rows and columns that the boxes of readable words cover.
struct Covered {
  std::vector<char> rows;
  std::vector<char> columns;
};

void cover(std::vector<char>& lines, double low, double high) {
  const auto last = static_cast<double>(lines.size()) - 1;
  // Cut to the picture first: a number may be larger than a std::size_t.
  const double first = std::clamp(std::nearbyint(low), 0.0, last + 1),
               end = std::clamp(std::nearbyint(high), -1.0, last);
  for (auto i = static_cast<std::int64_t>(first); i <= static_cast<std::int64_t>(end); ++i) {
    lines[static_cast<std::size_t>(i)] = 1;
  }
}

Covered covered(const TextPicture& picture) {
  Covered covered{std::vector<char>(static_cast<std::size_t>(picture.pixels.rows)),
                  std::vector<char>(static_cast<std::size_t>(picture.pixels.cols))};
  for (const auto& word : picture.words) {
    if (word.ignored) continue;
    const auto box = bounds(word.polygon);
    cover(covered.rows, box.y, box.y + box.height);
    cover(covered.columns, box.x, box.x + box.width);
  }
  return covered;
}

std::vector<int> free_lines(const std::vector<char>& lines) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] == 0) numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

/// From one free line to another, the second excluded.
std::pair<int, int> draw_range(const std::vector<int>& lines, const Draw& draw) {
  const int a = lines[draw(lines.size())], b = lines[draw(lines.size())];
  return {std::min(a, b), std::max(a, b)};
}

bool overlaps(const Polygon& polygon, const cv::Rect& window) {
  const auto box = bounds(polygon);
  return box.x + box.width > window.x && box.x < window.x + window.width && box.y + box.height > window.y &&
         box.y < window.y + window.height;
}

/// Whether a border of the window cuts the word's box.
bool cuts(const cv::Rect& window, const Word& word) {
  const auto box = bounds(word.polygon);
  return overlaps(word.polygon, window) && (box & cv::Rect2d(window)) != box;
}

/// A window of a fixed size.
cv::Rect window_at_scale(const TextPicture& picture, const CropOptions& options, const Draw& draw) {
  const int height = std::min(options.height, picture.pixels.rows),
            width = std::min(options.width, picture.pixels.cols);
  const int rows = picture.pixels.rows - height, columns = picture.pixels.cols - width;
  const auto place = [&draw](int last) { return static_cast<int>(draw(static_cast<std::uint64_t>(last) + 1)); };
  std::vector<const Word*> readable;
  for (const auto& word : picture.words) {
    if (!word.ignored) readable.push_back(&word);
  }
  std::optional<cv::Rect> second_best;
  for (int i = 0; i < options.tries; ++i) {
    const int top = place(rows), left = place(columns);
    const cv::Rect window(left, top, width, height);
    if (readable.empty()) return window;
    if (std::ranges::none_of(readable, [&](const Word* word) { return overlaps(word->polygon, window); })) continue;
    if (std::ranges::none_of(readable, [&](const Word* word) { return cuts(window, *word); })) return window;
    if (!second_best) second_best = window;
  }
  if (second_best) return *second_best;
  const auto box = bounds(readable[draw(readable.size())]->polygon);
  const auto around = [](double middle, int side, int last) {
    return static_cast<int>(std::clamp(middle - side / 2.0, 0.0, static_cast<double>(last)));
  };
  return {around(box.x + box.width / 2, width, columns), around(box.y + box.height / 2, height, rows), width, height};
}

Polygon corners_of(const cv::Rect2d& box) {
  return {
      {box.x, box.y}, {box.x + box.width, box.y}, {box.x + box.width, box.y + box.height}, {box.x, box.y + box.height}};
}

}  // namespace

void mirror(TextPicture& picture) {
  cv::Mat mirrored;
  cv::flip(picture.pixels, mirrored, 1);
  picture.pixels = mirrored;
  const double last = picture.pixels.cols - 1;
  for_each_corner(picture.words, [last](cv::Point2d& corner) { corner.x = last - corner.x; });
  for (auto& word : picture.words) std::reverse(word.polygon.begin(), word.polygon.end());
}

void rotate(TextPicture& picture, double degrees) {
  const cv::Point2f middle(static_cast<float>(picture.pixels.cols / 2), static_cast<float>(picture.pixels.rows / 2));
  const cv::Matx23d turn = cv::getRotationMatrix2D(middle, degrees, 1);
  cv::Mat turned;
  cv::warpAffine(picture.pixels, turned, turn, picture.pixels.size());
  picture.pixels = turned;
  for_each_corner(picture.words, [&turn](cv::Point2d& corner) {
    const auto moved = turn * cv::Vec3d(corner.x, corner.y, 1);
    corner = {moved[0], moved[1]};
  });
}

void scale(TextPicture& picture, double factor) {
  const auto side = [factor](int pixels) { return std::max(1, static_cast<int>(std::nearbyint(pixels * factor))); };
  cv::Mat scaled;
  cv::resize(picture.pixels, scaled, {side(picture.pixels.cols), side(picture.pixels.rows)}, 0, 0, cv::INTER_LINEAR);
  picture.pixels = scaled;
  for_each_corner(picture.words, [factor](cv::Point2d& corner) { corner *= factor; });
}

void stretch(TextPicture& picture, int height, int width) {
  const double x = static_cast<double>(width) / picture.pixels.cols,
               y = static_cast<double>(height) / picture.pixels.rows;
  cv::Mat stretched;
  cv::resize(picture.pixels, stretched, {width, height}, 0, 0, cv::INTER_LINEAR);
  picture.pixels = stretched;
  for_each_corner(picture.words, [x, y](cv::Point2d& corner) { corner = {corner.x * x, corner.y * y}; });
}

cv::Rect crop_window(const TextPicture& picture, const CropOptions& options, const Draw& draw) {
  if (options.keep_scale) return window_at_scale(picture, options, draw);
  const int height = picture.pixels.rows, width = picture.pixels.cols;
  const cv::Rect whole(0, 0, width, height);
  const bool readable = std::ranges::any_of(picture.words, [](const Word& word) { return !word.ignored; });
  if (!readable) return whole;
  const auto marked = covered(picture);
  const auto rows = free_lines(marked.rows), columns = free_lines(marked.columns);
  if (rows.empty() || columns.empty()) return whole;
  const int least_height = static_cast<int>(std::ceil(options.min_side_ratio * height));
  const int least_width = static_cast<int>(std::ceil(options.min_side_ratio * width));
  for (int i = 0; i < options.tries; ++i) {
    const auto [top, bottom] = draw_range(rows, draw);
    const auto [left, right] = draw_range(columns, draw);
    const cv::Rect window(left, top, right - left, bottom - top);
    if (window.height < std::max(1, least_height) || window.width < std::max(1, least_width)) continue;
    const bool shows_one = std::ranges::any_of(
        picture.words, [&window](const Word& word) { return !word.ignored && overlaps(word.polygon, window); });
    if (shows_one) return window;
  }
  return whole;
}

void crop(TextPicture& picture, const cv::Rect& window, const CropOptions& options, double min_area) {
  const double to_fit =
      std::min(static_cast<double>(options.height) / window.height, static_cast<double>(options.width) / window.width);
  const double factor = options.keep_scale ? 1 : to_fit;
  const auto side = [factor](int pixels, int most) {
    return std::clamp(static_cast<int>(pixels * factor + 1e-6), 1, most);
  };
  const cv::Rect filled(0, 0, side(window.width, options.width), side(window.height, options.height));
  cv::Mat padded = cv::Mat::zeros(options.height, options.width, picture.pixels.type());
  cv::Mat scaled;
  cv::resize(picture.pixels(window), scaled, filled.size(), 0, 0, cv::INTER_LINEAR);
  scaled.copyTo(padded(filled));
  picture.pixels = padded;
  for_each_corner(picture.words,
                  [&](cv::Point2d& corner) { corner = (corner - cv::Point2d(window.x, window.y)) * factor; });
  const auto frame = corners_of(filled);
  std::erase_if(picture.words, [&](const Word& word) { return !overlaps(word.polygon, filled); });
  for (auto& word : picture.words) {
    if (!word.ignored && overlap(word.polygon, frame) < min_area) word.ignored = true;
  }
}

}  // namespace lockstep::ocr
