// What finding words in maps and matching them costs, beside the forward pass that makes the maps.
//
//   text_metric LABELS [PICTURES]
//
// LABELS: a label file (docs/ocr.md) of pictures of 1280x720, whose words are drawn as a network would say them,
// blurred and 0.9 at most, into maps of 736x1280: 500 by default. One thread does all; the forward pass of DBNet with a
// ResNet-18 is timed on 5 pictures.
#include <apps/ocr/detection/dbnet.h>
#include <apps/ocr/detection/find_boxes.h>
#include <apps/ocr/detection/match_words.h>
#include <apps/ocr/detection/text_labels.h>

#include <torch/torch.h>
#include <opencv2/imgproc.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

constexpr int kHeight = 736, kWidth = 1280, kFileHeight = 720, kForwards = 5;

template <typename Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

cv::Mat map_of(ocr::Words words) {
  const auto text = ocr::shrink_map(words, kFileHeight, kWidth, {}).text;
  cv::Mat map;
  text.convertTo(map, CV_32F, 0.9);
  cv::resize(map, map, {kWidth, kHeight});
  cv::GaussianBlur(map, map, {5, 5}, 0);
  return map;
}

void measure(const std::string& labels, std::int64_t pictures) {
  torch::set_num_threads(1);
  cv::setNumThreads(0);
  data::BadItems bad(false, "labels");
  const auto all = ocr::read_label_file(labels, {.key = "LABELS", .labels = "auto", .bad = bad});
  std::vector<cv::Mat> maps;
  for (const auto& picture : all) maps.push_back(map_of(picture.words));
  const ocr::Frame frame{kFileHeight, kWidth, static_cast<double>(kHeight) / kFileHeight, 1};
  ocr::MatchCounts counts;
  const double metric = seconds_of([&] {
    for (std::int64_t i = 0; i < pictures; ++i) {
      const auto which = static_cast<std::size_t>(i) % maps.size();
      std::vector<ocr::Polygon> found;
      for (const auto& word : ocr::find_words(maps[which], frame, {})) found.push_back(word.polygon);
      const auto own = ocr::match_words(all[which].words, found);
      counts = {counts.matched + own.matched, counts.truth + own.truth, counts.found + own.found};
    }
  });
  ocr::Dbnet model({.depth = 18});
  model.eval();
  const torch::NoGradGuard no_grad;
  const auto input = torch::randn({1, 3, kHeight, kWidth});
  model.forward(input);
  const double forward = seconds_of([&] {
    for (int i = 0; i < kForwards; ++i) model.forward(input);
  });
  const auto rates = ocr::rates_of(static_cast<double>(counts.matched), static_cast<double>(counts.truth),
                                   static_cast<double>(counts.found));
  fmt::print(
      "{} maps of {}x{}: words found and matched in {:.2f} s ({:.2f} ms a map, hmean {:.3f}); forward {:.1f} s "
      "({:.0f} ms a picture); ratio {:.4f}\n",
      pictures, kHeight, kWidth, metric, 1e3 * metric / static_cast<double>(pictures), rates.hmean,
      forward / kForwards * static_cast<double>(pictures), 1e3 * forward / kForwards,
      metric / (forward / kForwards * static_cast<double>(pictures)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2 && argc != 3) {
      std::fputs("usage: text_metric LABELS [PICTURES]\n", stderr);
      return 2;
    }
    measure(argv[1], argc == 3 ? std::stoll(argv[2]) : 500);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "text_metric: %s\n", error.what());
    return 1;
  }
}
