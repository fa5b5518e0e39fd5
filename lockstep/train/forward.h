// The forward pass of a batch, to logits and a loss: the same in training and evaluation.
#pragma once

#include <lockstep/data/batch.h>
#include <lockstep/models/registry.h>
#include <lockstep/train/config.h>
#include <lockstep/train/loss.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace lockstep::train {

struct ForwardOptions {
  LossKind loss = LossKind::cross_entropy;
  double label_smoothing = 0;
  bool channels_last = false;
  bool bfloat16 = false;
  c10::Device device{c10::DeviceType::CPU};
  std::function<at::Tensor(const at::Tensor&)> place{};  ///< applied to pictures and labels, when given
};

ForwardOptions forward_options(const RunConfig& config, const c10::Device& device);

struct ForwardResult {
  at::Tensor logits;  ///< [N, num_classes]
  at::Tensor labels;  ///< int64 [N]
  at::Tensor loss;    ///< scalar: mean over the batch
};

/// The batch must not be empty, unless options.place joins the batches of several ranks into one.
ForwardResult forward(const models::Classifier& model, const std::shared_ptr<data::Batch>& batch,
                      const ForwardOptions& options);

/// A loss of 0 for a batch without pictures, with a graph through the whole model, whose gradients are 0.
at::Tensor forward_nothing(const models::Classifier& model, const std::shared_ptr<data::Batch>& batch,
                           const ForwardOptions& options);

}  // namespace lockstep::train
