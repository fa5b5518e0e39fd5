// A GPT with GPT-2's initialization; attention by libtorch's fused kernel, or by single operators for global tensors.
#include <lockstep/base/error.h>
#include <lockstep/compat/attention.h>
#include <lockstep/models/gpt.h>

#include <cmath>
#include <limits>

namespace lockstep::models {
namespace {

constexpr double kDeviation = 0.02;

const GptShape& checked(const GptShape& shape) {
  if (shape.vocabulary < 1 || shape.context < 1 || shape.layers < 1 || shape.heads < 1 || shape.width < 1) {
    fail(ErrorKind::invalid_argument, "gpt",
         "vocabulary {}, context {}, layers {}, heads {} and width {} must be at least 1", shape.vocabulary,
         shape.context, shape.layers, shape.heads, shape.width);
  }
  if (shape.width % shape.heads != 0) {
    fail(ErrorKind::config, "model.heads",
         "is {}, and model.width is {}, which it does not divide: each head has an equal part of the width; set "
         "model.width to {}, or take other heads",
         shape.heads, shape.width, (shape.width / shape.heads + 1) * shape.heads);
  }
  return shape;
}

/// The causal mask: true where a token (row) must not attend, at later tokens.
torch::Tensor later_tokens(std::int64_t length, const torch::Tensor& like) {
  return torch::ones({length, length}, like.options().dtype(torch::kBool).requires_grad(false)).triu(1);
}

/// Attention of [N, heads, T, width]. Plain tensors use libtorch's fused kernel, if there is one: it stores no matrix
/// of scores. Global tensors, which have parts on several ranks, use single operators instead.
torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value) {
  if (query.is_cpu() || query.is_cuda()) {
    if (auto fused = compat::fused_causal_attention(query, key, value)) return *std::move(fused);
  }
  const auto scale = 1.0 / std::sqrt(static_cast<double>(query.size(3)));
  const auto scores = (query * scale).matmul(key.transpose(2, 3));
  return scores.masked_fill(later_tokens(query.size(2), scores), -std::numeric_limits<double>::infinity())
      .softmax(-1)
      .matmul(value);
}

void initialize(Gpt& model, std::int64_t layers) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model.named_parameters()) {
    auto& value = parameter.value();
    if (parameter.key().ends_with("bias")) {
      value.zero_();
    } else if (value.dim() > 1) {
      const bool ends_part = parameter.key().ends_with("output.weight") || parameter.key().ends_with("fc2.weight");
      const double scale = ends_part ? std::sqrt(2.0 * static_cast<double>(layers)) : 1.0;
      value.normal_(0, kDeviation / scale);
    }
  }
}

}  // namespace

void describe(ConfigFields& fields, GptShape& shape) {
  constexpr double kMost = 1e6;
  fields.field("vocabulary", shape.vocabulary, between(1, kMost), "numbers that a token can have; 256 for bytes");
  fields.field("context", shape.context, between(1, kMost), "the longest sequence");
  fields.field("layers", shape.layers, between(1, kMost), "blocks of attention and feed-forward");
  fields.field("heads", shape.heads, between(1, kMost), "attention heads of a block");
  fields.field("width", shape.width, between(1, kMost), "features of a token, a multiple of heads");
  fields.field("dropout", shape.dropout, from_to_below(0, 1), "dropout of embeddings and of the residual branches");
  fields.field("tied_head", shape.tied_head, anything(), "the output layer shares the weight of the token embedding");
}

CausalAttention::CausalAttention(std::int64_t width, std::int64_t heads)
    : heads_(heads),
      query_(register_module("query", torch::nn::Linear(width, width))),
      key_(register_module("key", torch::nn::Linear(width, width))),
      value_(register_module("value", torch::nn::Linear(width, width))),
      output_(register_module("output", torch::nn::Linear(width, width))) {}

torch::Tensor CausalAttention::forward(const torch::Tensor& tokens) {
  const auto length = tokens.size(1);
  const auto in_heads = [&](const torch::Tensor& values) {  // [N, heads, T, width / heads]
    return values.view({values.size(0), length, heads_, values.size(2) / heads_}).transpose(1, 2);
  };
  const auto seen = causal_attention(in_heads(query_(tokens)), in_heads(key_(tokens)), in_heads(value_(tokens)));
  return output_(seen.transpose(1, 2).reshape(tokens.sizes()));
}

GptBlock::GptBlock(const GptShape& shape)
    : norm1_(register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))),
      attention_(register_module("attention", std::make_shared<CausalAttention>(shape.width, shape.heads))),
      norm2_(register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))),
      fc1_(register_module("fc1", torch::nn::Linear(shape.width, 4 * shape.width))),
      fc2_(register_module("fc2", torch::nn::Linear(4 * shape.width, shape.width))),
      dropout_(register_module("dropout", torch::nn::Dropout(shape.dropout))) {}

torch::Tensor GptBlock::forward(const torch::Tensor& tokens) {
  return recomputed(*this, tokens, [this](const torch::Tensor& in) {
    const auto seen = in + dropout_(attention_->forward(norm1_(in)));
    return seen + dropout_(fc2_(torch::gelu(fc1_(norm2_(seen)))));
  });
}

Gpt::Gpt(const GptShape& shape)
    : shape_(checked(shape)),
      token_(register_module("token", torch::nn::Embedding(shape.vocabulary, shape.width))),
      position_(register_module("position", torch::nn::Embedding(shape.context, shape.width))),
      dropout_(register_module("dropout", torch::nn::Dropout(shape.dropout))) {
  const auto blocks = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    blocks_.push_back(std::make_shared<GptBlock>(shape));
    blocks->push_back(blocks_.back());
  }
  norm_ = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})));
  if (!shape.tied_head) {
    head_ =
        register_module("head", torch::nn::Linear(torch::nn::LinearOptions(shape.width, shape.vocabulary).bias(false)));
  }
}

torch::Tensor Gpt::forward(const torch::Tensor& tokens) {
  if (tokens.dim() != 2) {
    fail(ErrorKind::invalid_argument, "gpt", "numbers of tokens [N, T] are needed, not a tensor of {} dimensions",
         tokens.dim());
  }
  if (tokens.size(1) > shape_.context) {
    fail(ErrorKind::config, "data.length",
         "a sample has {} tokens, and model.context is {}; set data.length to at most {}, or raise model.context",
         tokens.size(1), shape_.context, shape_.context);
  }
  auto values = dropout_(token_(tokens) + position_->weight.slice(0, 0, tokens.size(1)));
  for (const auto& block : blocks_) values = block->forward(values);
  values = norm_(values);
  return head_ ? head_(values) : torch::nn::functional::linear(values, token_->weight);
}

std::shared_ptr<Gpt> gpt(const GptShape& shape) {
  auto model = std::make_shared<Gpt>(shape);
  initialize(*model, shape.layers);
  return model;
}

}  // namespace lockstep::models
