// A small GPT: a decoder-only transformer with pre-normalization (Radford et al. 2019, "Language Models are
// Unsupervised Multitask Learners").
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/kernels/tuning.h>

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
  double dropout = 0.0;      ///< dropout of embeddings and of the residual branches
  bool tied_head = true;     ///< the output layer shares the weight of the token embedding
};

void describe(ConfigFields& fields, GptShape& shape);

/// Causal self-attention: every token attends to itself and to earlier tokens. Queries, keys and values each have their
/// own matrix. The heads are consecutive rows of it, so that sharding the rows evenly shards the heads. Parameters:
/// query, key, value, output.
class CausalAttention : public torch::nn::Module {
 public:
  CausalAttention(std::int64_t width, std::int64_t heads);
  /// Input and output: [N, T, width].
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  std::int64_t heads_;
  torch::nn::Linear query_;
  torch::nn::Linear key_;
  torch::nn::Linear value_;
  torch::nn::Linear output_;
};

/// x + attention(norm1(x)), then x + fc2(gelu(fc1(norm2(x)))) with a hidden width of 4 * width.
class GptBlock : public torch::nn::Module, public Recomputable {
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
  /// Error(invalid_argument) for sizes below 1, Error(config) for a width that the heads do not divide.
  explicit Gpt(const GptShape& shape);
  /// Token ids [N, T], int64, T at most the context (else Error(config)), to logits [N, T, vocabulary].
  torch::Tensor forward(const torch::Tensor& tokens);
  const GptShape& shape() const { return shape_; }

 private:
  GptShape shape_;
  torch::nn::Embedding token_;
  torch::nn::Embedding position_;
  torch::nn::Dropout dropout_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};

/// Builds the model with torch's default generator: weights from N(0, 0.02), those of the last layer of a residual
/// branch divided by sqrt(2 * layers), biases 0.
std::shared_ptr<Gpt> gpt(const GptShape& shape);

}  // namespace lockstep::models
