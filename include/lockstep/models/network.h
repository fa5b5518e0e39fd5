// What models of one's own are made of: the base classes of models for the shipped tasks; stages of residual blocks,
// the parts of all ResNets here (He et al. 2015, arXiv:1512.03385); and an embedding table for models of
// recommendation, whose rows may be on parameter servers. Not thread-safe.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
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

// ---- layers

enum class Block {
  basic,       ///< two 3x3 convolutions; the output has `channels` channels
  bottleneck,  ///< 1x1, 3x3 (which carries the stride, "v1.5"), 1x1; the output has 4 * `channels` channels
};

/// The shape change in the first block's shortcut. The shortcuts of later blocks are the identity.
enum class Shortcut {
  projection,  ///< option B of the paper: 1x1 convolution and BatchNorm
  padding,     ///< option A: every stride-th pixel, and zeros for the new channels; has no parameters
  pooled,      ///< averages of the pixels that the stride joins, then as `projection`, also where the shape stays: "vd"
};

/// The ratio of a block's output channels to its width: 1 or 4.
std::int64_t expansion(Block block);

struct StageShape {
  Block block = Block::basic;
  Shortcut shortcut = Shortcut::projection;
  std::int64_t in_channels = 0;
  std::int64_t channels = 0;
  std::int64_t depth = 0;   ///< number of blocks
  std::int64_t stride = 1;  ///< of the first block, over rows
  /// The stride of the first block over columns; nullopt: the same as over rows.
  std::optional<std::int64_t> column_stride = std::nullopt;
};

/// [N, in_channels, H, W] -> [N, expansion * channels, ceil(H / stride), ceil(W / column_stride)].
/// Parameters are named as torchvision's: `0.conv1.weight`, `0.downsample.0.weight`, ...
torch::nn::Sequential residual_stage(const StageShape& shape);

/// 3x3 convolution with padding 1 and without bias.
torch::nn::Conv2d conv3x3(std::int64_t in_channels, std::int64_t out_channels, torch::ExpandingArray<2> stride = 1);

/// Initializes weights as in the paper: convolutions from N(0, 2 / (k * k * out_channels)), BatchNorm with weight 1 and
/// bias 0.
void initialize_residual(torch::nn::Module& module);

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
/// from the row and one number drawn from torch's default generator.
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
