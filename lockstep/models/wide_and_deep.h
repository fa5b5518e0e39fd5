// Wide & Deep (Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems") for samples of fields: a linear model
// and a network of embeddings, added up.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/models/network.h>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::models {

struct WideAndDeepShape {
  std::int64_t rows = 200'000;  ///< of both tables
  std::int64_t fields = 39;     ///< ids of a sample
  std::int64_t dim = 80;        ///< numbers in a row of the deep table
  std::vector<std::int64_t> hidden = {1024, 512, 256, 128};
  bool sparse = false;  ///< gradients of the tables have only the rows of the batch
};
void describe(ConfigFields& fields, WideAndDeepShape& shape);

/// logit = sum over fields of wide[id] * weight + bias + mlp(deep[id] * weight of all fields, one after the other).
/// Parameters: wide.weight [rows, 1], 0 at first; deep.weight [rows, dim], about N(0, 0.01) (ServedEmbedding); bias
/// [1], 0; fc1, fc2, ... with ReLU between them, as libtorch makes linear layers.
class WideAndDeep : public FieldNetwork {
 public:
  explicit WideAndDeep(const WideAndDeepShape& shape);

  /// Inputs: [N, fields] each. Output: logits [N].
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& weights) override;
  std::int64_t rows() const override { return shape_.rows; }
  const WideAndDeepShape& shape() const { return shape_; }

 private:
  WideAndDeepShape shape_;
  ServedEmbedding wide_{nullptr};
  ServedEmbedding deep_{nullptr};
  at::Tensor bias_;
  std::vector<torch::nn::Linear> layers_;
};

/// Builds the model with torch's default generator. Error(config) when the tables do not fit into this machine's
/// available memory.
std::shared_ptr<WideAndDeep> wide_and_deep(const WideAndDeepShape& shape);

}  // namespace lockstep::models
