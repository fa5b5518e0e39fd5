// CRNN (Shi et al. 2015, arXiv:1507.05717): convolutions, a recurrent network over the columns, and classes of each
// column.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <cstdint>
#include <memory>

namespace lockstep::ocr {

struct CrnnOptions {
  std::int64_t num_classes = 37;  ///< the dictionary's characters and the blank
  std::int64_t channels = 64;     ///< of the first stage; the last one has eight times as many
  std::int64_t hidden = 256;      ///< of each direction of each recurrent layer
};
void describe(ConfigFields& fields, CrnnOptions& options);

/// The backbone, which converts pictures to columns: float [N, 3, 32, W] to [N, out_channels(), 1, T].
class WordBackbone : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& pictures) = 0;
  virtual std::int64_t out_channels() const = 0;
};

/// A residual network of 34 layers with a stem of three convolutions and average pools in its shortcuts ("vd"), which
/// halves the height five times and the width twice: T = W / 4.
std::shared_ptr<WordBackbone> word_resnet34(std::int64_t channels);

/// Seven convolutions, as in the paper: T = W / 4 - 1.
std::shared_ptr<WordBackbone> word_vgg7(std::int64_t channels);

/// Pictures, float [N, 3, 32, W], to logits [T, N, num_classes], float32. The recurrent layers (two, both directions)
/// and the last layer compute in float32 under autocast, too.
class Crnn : public torch::nn::Module, public train::KnowsOtherNames {
 public:
  Crnn(std::shared_ptr<WordBackbone> backbone, const CrnnOptions& options);
  torch::Tensor forward(const torch::Tensor& pictures);

  /// The names of MindOCR's weights.
  std::vector<train::Rename> other_names() const override;

 private:
  std::shared_ptr<WordBackbone> backbone_;
  torch::nn::LSTM lstm_;
  torch::nn::Linear head_;
};

std::shared_ptr<Crnn> crnn_resnet34(const CrnnOptions& options);
std::shared_ptr<Crnn> crnn_vgg7(const CrnnOptions& options);

}  // namespace lockstep::ocr
