// An embedding table for models of recommendation: its rows may be on parameter servers.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

namespace lockstep::models {

struct EmbeddingShape {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  bool sparse = true;       ///< gradients have only the rows of the batch (parallel.sparse_gradients)
  double deviation = 0.01;  ///< of the first values, which are about normal around 0; 0: all are 0
};

struct RemoteRows;

/// A module with the parameter `weight` [rows, dim], float32, as torch::nn::Embedding. In a run with parameter servers
/// (docs/recommendation.md) it has no parameter and no memory for one: forward() fetches the rows of the batch, and
/// their gradients are sent when the step ends. The result is the same bit for bit. The first values of a row follow
/// from the row and one number drawn from torch's default generator. Not thread-safe.
///
///     struct Net : torch::nn::Module {
///       Net() { register_module("users", users); }
///       models::ServedEmbedding users{models::EmbeddingShape{.rows = 1000, .dim = 16}};
///       ...
///
/// The module must be created in the run: pass a function as train::Program::model, or a part (train/parts.h).
class ServedEmbeddingImpl : public torch::nn::EmbeddingImpl {
 public:
  explicit ServedEmbeddingImpl(const EmbeddingShape& shape);

  void reset() override {}
  /// Ids, int64 of any sizes, to [..., dim]. Error(config) naming an id that is out of range, if rows are on servers;
  /// those of torch::nn::Embedding else.
  at::Tensor forward(const at::Tensor& ids);

  const EmbeddingShape& shape() const { return shape_; }

  /// For the library: the location of the rows, if not in `weight`.
  const std::shared_ptr<RemoteRows>& distant() const { return distant_; }

 private:
  at::Tensor fetch_rows(const at::Tensor& ids);
  void require_in_range(const at::Tensor& ids) const;

  EmbeddingShape shape_;
  std::shared_ptr<RemoteRows> distant_;
};
TORCH_MODULE(ServedEmbedding);

}  // namespace lockstep::models
