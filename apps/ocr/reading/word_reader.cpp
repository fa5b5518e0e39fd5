// The reader of words by the trained run of a recognition model, in batches of 64 cut words.
#include <apps/ocr/reading/word_reader.h>

#include <apps/ocr/detection/word_tensors.h>
#include <apps/ocr/parts.h>
#include <lockstep/base/error.h>
#include <lockstep/samples/pictures.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace lockstep::ocr {
namespace {

constexpr std::size_t kTogether = 64;  // words of one forward pass

train::TrainedRun run_of(const std::filesystem::path& config, const std::string& weights) {
  try {
    return {config, weights, std::make_shared<const train::Parts>(with_ocr_parts(train::shipped_parts()))};
  } catch (const Error& error) {
    if (error.where() != "model.weights") throw;
    throw Error(ErrorKind::config, "task.read_weights", error.message(), error.position());
  }
}

}  // namespace

WordReader::WordReader(const std::filesystem::path& config, const std::string& weights)
    : run_(run_of(config, weights)) {}

std::vector<WordReader::Read> WordReader::read(const std::vector<cv::Mat>& words) const {
  std::vector<Read> all;
  for (std::size_t begin = 0; begin < words.size(); begin += kTogether) {
    std::vector<samples::Sample> samples;
    for (auto i = begin; i < std::min(words.size(), begin + kTogether); ++i) {
      samples::Sample sample;
      sample.tensors.emplace(samples::kPictures, to_tensor(words[i]));
      samples.push_back(std::move(sample));
    }
    const auto count = samples.size();
    const auto prediction = run_.predict(std::move(samples), static_cast<std::int64_t>(begin));
    const auto text = prediction.texts.find("text");
    if (text == prediction.texts.end()) {
      fail(ErrorKind::config, "task.read_config", "names a model that predicts no texts");
    }
    const auto confidence = prediction.tensors.find("confidence");
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back({text->second.at(i), confidence == prediction.tensors.end()
                                             ? 1.0
                                             : confidence->second[static_cast<std::int64_t>(i)].item<double>()});
    }
  }
  return all;
}

}  // namespace lockstep::ocr
