// Job files: what both sides of a comparison, C++ and Python, are to compute.
#pragma once

#include <lockstep/models/network.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::parity {

struct Job {
  std::string model;  ///< a name of the registry, or two_heads or tied (see odd_models.h)
  std::int64_t num_classes = 0;
  std::int64_t in_channels = 0;
  std::int64_t in_features = 0;
  std::vector<std::int64_t> hidden;
  std::string stem = "imagenet";

  std::filesystem::path weights;  ///< initial weights
  std::filesystem::path out;      ///< file, or beginning of the names of several files, for the results

  std::uint64_t seed = 0;       ///< initial: of the generator
  std::filesystem::path batch;  ///< gradients: tensors "pictures" and "labels"

  std::filesystem::path batches;    ///< training: "pictures" and "labels" of shape [steps, world * batch, ...]
  std::int64_t steps = 0;           ///< training
  std::int64_t batch_size = 0;      ///< training: of one rank and step
  std::int64_t micro_batches = 1;   ///< training: backward passes a step; only the last one communicates
  double learning_rate = 0;         ///< training: of SGD
  double momentum = 0;              ///< training: of SGD
  std::string dtype = "float32";    ///< training: float32 or float64
  std::vector<std::string> frozen;  ///< training: parameters without gradients
  bool channels_last = false;       ///< training: our side's weights
};

/// Throws nlohmann's exception for a key that is missing or mistyped.
Job read_job(const std::filesystem::path& path);

/// The job's model with fresh weights.
std::shared_ptr<models::Network> make_model(const Job& job);

}  // namespace lockstep::parity
