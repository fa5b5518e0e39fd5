// The base classes of models for the shipped tasks: a module that maps a batch of pictures to logits, and one that
// maps a batch of ids to a logit each. Not thread-safe.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string_view>

namespace lockstep::models {

/// The common type of all classifiers that a configuration can name, also those of users (train::kClassification).
class Network : public torch::nn::Module {
 public:
  /// Pictures [N, C, H, W], floating, to logits [N, num_classes].
  virtual at::Tensor forward(const at::Tensor& pictures) = 0;
};

/// The common type of models of samples that are fields with an id each, such as clicks: rows of embedding tables. For
/// task.name binary_classification.
class FieldNetwork : public torch::nn::Module {
 public:
  /// `ids`, int64 [N, fields], from 0 to rows() - 1, with `weights`, floating [N, fields], to logits [N].
  virtual at::Tensor forward(const at::Tensor& ids, const at::Tensor& weights) = 0;
  virtual std::int64_t rows() const = 0;
};

/// Error(invalid_argument) naming `model` and the actual shape unless `pictures` is [N, channels, H, W].
void require_pictures(const at::Tensor& pictures, std::int64_t channels, std::string_view model);

}  // namespace lockstep::models
