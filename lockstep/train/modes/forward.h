// The forward pass of a batch, the same in training and evaluation.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/train/config.h>
#include <lockstep/train/task.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::train {

/// The module that a run trains, and its task.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::shared_ptr<Task> task;
};

struct ForwardOptions {
  bool channels_last = false;
  std::optional<at::ScalarType> autocast = std::nullopt;  ///< dtype of convolutions and matrix products
  c10::Device device{c10::DeviceType::CPU};
  /// Applied to each tensor of a batch, with its name, when given.
  std::function<at::Tensor(const std::string& name, const at::Tensor&)> place{};
};

/// Error(config) for model.autocast float16 where this libtorch cannot compute in it.
ForwardOptions forward_options(const RunConfig& config, const c10::Device& device);

/// One forward pass, with the number of samples and items that it was over.
struct Forwarded {
  Outcome outcome;
  double samples = 0;
  double items = 0;  ///< outcome.items, or else the samples
};

/// The batch must not be empty, unless options.place joins the batches of several ranks into one.
/// Error(invalid_argument) when the task's loss is not a scalar.
Forwarded forward(const Model& model, samples::Batch batch, const ForwardOptions& options, bool measures);

/// The task's loss of 0 for a batch without samples, with a graph through the whole model.
at::Tensor forward_nothing(const Model& model, samples::Batch batch, const ForwardOptions& options);

/// What the task predicts for a batch that is not empty.
Prediction predict(const Model& model, samples::Batch batch, const ForwardOptions& options);

}  // namespace lockstep::train
