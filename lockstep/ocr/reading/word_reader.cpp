// A recognition model built from its configuration and weights, run on batches of 64 cut words without gradients.
#include <lockstep/ocr/reading/word_reader.h>

#include <lockstep/base/error.h>
#include <lockstep/ocr/detection/word_tensors.h>
#include <lockstep/ocr/parts.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/checkpoint/weights.h>
#include <lockstep/train/evaluation/measured_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/resources/run_data.h>

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep::ocr {
namespace {

constexpr std::size_t kTogether = 64;  // words of one forward pass

}  // namespace

WordReader::WordReader(const std::filesystem::path& config, const std::string& weights)
    : config_(train::load_measured_config(
          config, {}, weights, std::make_shared<const train::Parts>(with_ocr_parts(train::shipped_parts())))),
      transform_(train::transforms_of(config_, data::Split::test).steps) {
  const auto program = train::configured_program(config_);
  model_ = program.model();
  task_ = program.task;
  try {
    train::load_weights(*model_, weights);
  } catch (const Error& error) {
    throw Error(ErrorKind::config, "task.read_weights", error.message(), error.position());
  }
  model_->eval();
}

std::vector<WordReader::Read> WordReader::read(const std::vector<cv::Mat>& words) const {
  const torch::NoGradGuard no_grad;
  std::vector<Read> all;
  for (std::size_t begin = 0; begin < words.size(); begin += kTogether) {
    std::vector<samples::Sample> samples;
    for (auto i = begin; i < std::min(words.size(), begin + kTogether); ++i) {
      samples::Sample sample;
      sample.tensors.emplace(samples::kPictures, to_tensor(words[i]));
      const samples::Chance none(0, 0, static_cast<std::int64_t>(i));
      samples.push_back(transform_ ? transform_(std::move(sample), none) : std::move(sample));
    }
    const auto count = samples.size();
    auto batch = samples::pad_and_stack(std::move(samples));
    batch.count = static_cast<std::int64_t>(count);
    // The numbers of samples, as from a loader: tasks use them to name samples without a name.
    for (std::size_t i = 0; i < count; ++i) batch.indices.push_back(static_cast<std::int64_t>(begin + i));
    const auto prediction = task_->predict(*model_, batch);
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
