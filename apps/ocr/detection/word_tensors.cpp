// Conversions between words and padded tensors, and between tensors and OpenCV matrices, which share memory.
#include <apps/ocr/detection/word_tensors.h>

#include <lockstep/base/error.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep::ocr {

at::Tensor polygons_of(const Words& words) {
  std::size_t corners = 0;
  for (const auto& word : words) corners = std::max(corners, word.polygon.size());
  auto tensor =
      at::empty({static_cast<std::int64_t>(words.size()), static_cast<std::int64_t>(corners), 2}, at::kDouble);
  auto* out = tensor.data_ptr<double>();
  for (const auto& word : words) {
    for (std::size_t i = 0; i < corners; ++i) {
      const auto& corner = word.polygon[std::min(i, word.polygon.size() - 1)];
      *out++ = corner.x;
      *out++ = corner.y;
    }
  }
  return tensor;
}

at::Tensor ignored_of(const Words& words) {
  auto tensor = at::empty({static_cast<std::int64_t>(words.size())}, at::kBool);
  auto* out = tensor.data_ptr<bool>();
  for (const auto& word : words) *out++ = word.ignored;
  return tensor;
}

Words words_of(const at::Tensor& polygons, const at::Tensor& ignored) {
  const auto corners = polygons.contiguous();
  const auto tags = ignored.contiguous();
  Words words(static_cast<std::size_t>(polygons.size(0)));
  const auto* next = corners.data_ptr<double>();
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i].ignored = tags.data_ptr<bool>()[i];
    for (std::int64_t k = 0; k < polygons.size(1); ++k, next += 2) words[i].polygon.emplace_back(next[0], next[1]);
  }
  return words;
}

std::optional<Words> words_of(const samples::Sample& sample) {
  const auto polygons = sample.tensors.find(kPolygons), ignored = sample.tensors.find(kIgnored);
  if (polygons == sample.tensors.end() || ignored == sample.tensors.end()) return std::nullopt;
  return words_of(polygons->second, ignored->second);
}

void set_words(samples::Sample& sample, const Words& words) {
  sample.tensors.insert_or_assign(kPolygons, polygons_of(words));
  sample.tensors.insert_or_assign(kIgnored, ignored_of(words));
}

cv::Mat to_mat(const at::Tensor& picture) {
  const int channels = picture.dim() == 3 ? static_cast<int>(picture.size(2)) : 1;
  const int depth = picture.scalar_type() == at::kByte ? CV_8U : CV_32F;
  return cv::Mat(static_cast<int>(picture.size(0)), static_cast<int>(picture.size(1)), CV_MAKETYPE(depth, channels),
                 picture.data_ptr());
}

at::Tensor to_tensor(const cv::Mat& picture) {
  const auto owner = picture.isContinuous() ? picture : picture.clone();
  std::vector<std::int64_t> sizes{owner.rows, owner.cols};
  if (owner.channels() > 1) sizes.push_back(owner.channels());
  return at::from_blob(
      owner.data, sizes, [owner](void*) {}, owner.depth() == CV_8U ? at::kByte : at::kFloat);
}

}  // namespace lockstep::ocr
