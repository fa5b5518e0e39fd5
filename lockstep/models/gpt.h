// A small GPT: a decoder-only transformer with layer norms before its parts (Radford et al. 2019, "Language Models are
// Unsupervised Multitask Learners").
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::models {

struct GptShape {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;  ///< the longest sequence
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;  ///< a multiple of `heads`
  double dropout = 0.0;      ///< of embeddings and of what each part of a block adds
  bool tied_head = true;     ///< logits by the token embedding instead of a matrix of their own
};

/// Every token sees itself and those before it. Queries, keys and values have a matrix each, whose rows are the heads
/// one after the other, so that dividing the rows evenly divides the heads. Parameters: query, key, value, output.
class CausalAttention : public torch::nn::Module {
 public:
  CausalAttention(std::int64_t width, std::int64_t heads);
  /// [N, T, width] to the same.
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  std::int64_t heads_;
  torch::nn::Linear query_;
  torch::nn::Linear key_;
  torch::nn::Linear value_;
  torch::nn::Linear output_;
};

/// x + attention(norm1(x)), then x + fc2(gelu(fc1(norm2(x)))) with four times the width between.
class GptBlock : public torch::nn::Module {
 public:
  explicit GptBlock(const GptShape& shape);
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  torch::nn::LayerNorm norm1_;
  std::shared_ptr<CausalAttention> attention_;
  torch::nn::LayerNorm norm2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Dropout dropout_;
};

/// Parameters are named token, position, blocks.<i>.{norm1, attention.*, norm2, fc1, fc2}, norm and, untied, head.
class Gpt : public torch::nn::Module {
 public:
  /// Error(invalid_argument) for sizes below 1 and a width that the heads do not divide.
  explicit Gpt(const GptShape& shape);
  /// Numbers of tokens [N, T], int64, T at most the context, to logits [N, T, vocabulary].
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  GptShape shape_;
  torch::nn::Embedding token_;
  torch::nn::Embedding position_;
  torch::nn::Dropout dropout_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};

/// With torch's default generator: weights from N(0, 0.02), those that end a residual part divided by
/// sqrt(2 * layers), biases 0.
std::shared_ptr<Gpt> gpt(const GptShape& shape);

}  // namespace lockstep::models
