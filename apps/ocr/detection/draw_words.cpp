// Outlines of words, texts beside them and contact sheets, drawn with OpenCV.
#include <apps/ocr/detection/draw_words.h>

#include <lockstep/data/pictures.h>

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <utility>

namespace lockstep::ocr {
namespace {

const cv::Scalar kGreen(0, 220, 0), kRed(255, 40, 40), kYellow(255, 230, 0);
constexpr int kColumns = 3;

void outline(cv::Mat& picture, const std::vector<Polygon>& words, const cv::Scalar& color, int thickness) {
  for (const auto& word : words) {
    cv::polylines(picture, std::vector<std::vector<cv::Point>>{cut_corners(word)}, /*isClosed=*/true, color, thickness);
  }
}

}  // namespace

cv::Mat read_rgb(const std::string& file) {
  auto decoded = data::read_picture(file, {.channels = 3, .orientation = true});
  return cv::Mat(decoded.height, decoded.width, CV_8UC3, decoded.pixels.data()).clone();
}

cv::Mat drawn_words(const std::string& file, const std::vector<Polygon>& found, const std::vector<Polygon>& truth) {
  cv::Mat picture = read_rgb(file);
  outline(picture, truth, kRed, 1);
  outline(picture, found, kGreen, 2);
  return picture;
}

void write_beside(cv::Mat& picture, const Polygon& word, const std::string& text) {
  if (word.empty()) return;
  std::string shown;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte & 0xc0U) == 0x80U) continue;  // a further byte of a UTF-8 character
    shown += byte >= 0x20 && byte < 0x7f ? letter : '?';
  }
  const auto corner = cut_corners(word).front();
  cv::putText(picture, shown, {corner.x, std::max(12, corner.y - 3)}, cv::FONT_HERSHEY_SIMPLEX, 0.5, kYellow, 1);
}

train::ShownPicture shown(const cv::Mat& picture, std::string name) {
  return {.name = std::move(name),
          .width = picture.cols,
          .height = picture.rows,
          .pixels = {picture.data, picture.data + picture.total() * picture.elemSize()}};
}

train::ShownPicture contact_sheet(const std::vector<cv::Mat>& pictures, int cell_width) {
  std::vector<cv::Mat> cells;
  int cell_height = 1;
  for (const auto& picture : pictures) {
    const double factor = static_cast<double>(cell_width) / picture.cols;
    cv::Mat cell;
    cv::resize(picture, cell, {cell_width, std::max(1, static_cast<int>(picture.rows * factor))}, 0, 0, cv::INTER_AREA);
    cell_height = std::max(cell_height, cell.rows);
    cells.push_back(cell);
  }
  const int count = static_cast<int>(cells.size());
  const int columns = std::min(kColumns, count), rows = (count + kColumns - 1) / kColumns;
  cv::Mat sheet = cv::Mat::zeros(rows * cell_height, columns * cell_width, CV_8UC3);
  for (int i = 0; i < count; ++i) {
    const auto& cell = cells[static_cast<std::size_t>(i)];
    cell.copyTo(sheet(cv::Rect(i % kColumns * cell_width, i / kColumns * cell_height, cell.cols, cell.rows)));
  }
  return shown(sheet, "words");
}

}  // namespace lockstep::ocr
