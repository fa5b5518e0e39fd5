// A trained model that reads the words which another model has found.
#pragma once

#include <lockstep/train/trained_run.h>

#include <opencv2/core.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::ocr {

/// The texts of words, by the model, the evaluation transforms and the task of a configuration. One thread.
class WordReader {
 public:
  /// Error(config) as load_run_config(), and if the weights do not fit.
  WordReader(const std::filesystem::path& config, const std::string& weights);

  struct Read {
    std::string text;
    double confidence = 0;
  };
  /// Pictures of words, uint8 RGB of any sizes.
  std::vector<Read> read(const std::vector<cv::Mat>& words) const;

 private:
  train::TrainedRun run_;
};

}  // namespace lockstep::ocr
