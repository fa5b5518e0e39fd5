// Wide & Deep over two embedding tables, local or on parameter servers, with the check of their memory.
#include <lockstep/models/wide_and_deep.h>

#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/compat/global_device.h>
#include <lockstep/models/remote_rows.h>

#include <fmt/ranges.h>

namespace lockstep::models {
namespace {

constexpr double kDeepDeviation = 0.01;

void require_memory_of_tables(const WideAndDeepShape& shape) {
  const double bytes =
      static_cast<double>(shape.rows) * (static_cast<double>(shape.dim) + 1) * static_cast<double>(sizeof(float));
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return;
  fail(ErrorKind::config, "model.rows",
       "the tables of {} rows with {} + 1 numbers have {:.0f} bytes, and {:.0f} bytes of memory are available to this "
       "process; lower model.rows or model.dim, or start parameter servers, which divide the rows among them "
       "(docs/recommendation.md)",
       shape.rows, shape.dim, bytes, available);
}

}  // namespace

void describe(ConfigFields& fields, WideAndDeepShape& shape) {
  fields.field("rows", shape.rows, between(1, 1e12), "rows of both tables: ids are below it (give data.rows)");
  fields.field("fields", shape.fields, between(1, 1e6), "ids of a sample; 39 for Criteo");
  fields.field("dim", shape.dim, between(1, 65536), "numbers of a row of the deep table");
  fields.field("hidden", shape.hidden, between(1, 1 << 20), "widths of the linear layers before the last");
  fields.field("sparse", shape.sparse, anything(),
               "gradients of the tables have only the rows of the batch; not with every optimizer");
}

WideAndDeep::WideAndDeep(const WideAndDeepShape& shape) : shape_(shape) {
  const auto table = [&shape](std::int64_t dim, double deviation) {
    return ServedEmbedding(
        EmbeddingShape{.rows = shape.rows, .dim = dim, .sparse = shape.sparse, .deviation = deviation});
  };
  wide_ = register_module("wide", table(1, 0));
  deep_ = register_module("deep", table(shape.dim, kDeepDeviation));
  bias_ = register_parameter("bias", torch::zeros({1}));
  auto widths = shape.hidden;
  widths.push_back(1);
  std::int64_t inputs = shape.fields * shape.dim;
  for (const auto outputs : widths) {
    const auto name = fmt::format("fc{}", layers_.size() + 1);
    layers_.push_back(register_module(name, torch::nn::Linear(inputs, outputs)));
    inputs = outputs;
  }
}

at::Tensor WideAndDeep::forward(const at::Tensor& ids, const at::Tensor& weights) {
  if (ids.dim() != 2 || ids.size(1) != shape_.fields || weights.sizes() != ids.sizes()) {
    fail(ErrorKind::config, "model.fields",
         "is {}, and a batch has ids [{}] with weights [{}]; give the number of ids of a sample", shape_.fields,
         fmt::join(ids.sizes(), ", "), fmt::join(weights.sizes(), ", "));
  }
  if (shape_.sparse && ids.device().type() == compat::kGlobalDevice) {
    fail(ErrorKind::config, "model.sparse",
         "is true, and parallel.mode semi_auto and auto have no sparse gradients; set model.sparse=false, or "
         "parallel.mode=data_parallel");
  }
  const auto wide = (wide_(ids).squeeze(-1) * weights).sum(1) + bias_;
  auto x = (deep_(ids) * weights.unsqueeze(-1)).flatten(1);
  x = layers_.front()(x);
  for (std::size_t i = 1; i < layers_.size(); ++i) x = layers_[i](x.relu());
  return wide + x.squeeze(-1);
}

std::shared_ptr<WideAndDeep> wide_and_deep(const WideAndDeepShape& shape) {
  if (!tables_are_elsewhere()) require_memory_of_tables(shape);
  return std::make_shared<WideAndDeep>(shape);
}

}  // namespace lockstep::models
