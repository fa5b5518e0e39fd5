// Conversions between libtorch's sparse COO gradients, rows sorted by id, and dense gradients.
#include <lockstep/mirrored/sparse_gradient.h>

#include <lockstep/base/error.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>

namespace lockstep::mirrored {
namespace {

std::vector<std::int64_t> with_rows(std::int64_t rows, at::IntArrayRef sizes) {
  auto out = sizes.vec();
  out.front() = rows;
  return out;
}

bool has_rows(const at::Tensor& sparse) {
  return sparse.scalar_type() == torch::kFloat && sparse.is_cpu() && sparse.sparse_dim() == 1;
}

}  // namespace

std::vector<at::Tensor> sparse_tables(const torch::nn::Module& module) {
  std::vector<at::Tensor> tables;
  const auto add = [&](const at::Tensor& table, bool sparse) {
    if (sparse && table.defined()) tables.push_back(table);
  };
  for (const auto& each : module.modules()) {
    if (const auto* embedding = each->as<torch::nn::EmbeddingImpl>()) {
      add(embedding->weight, embedding->options.sparse());
    } else if (const auto* bag = each->as<torch::nn::EmbeddingBagImpl>()) {
      add(bag->weight, bag->options.sparse());
    }
  }
  return tables;
}

rows::SparseRows rows_of(const at::Tensor& sparse) {
  if (!has_rows(sparse)) {
    fail(ErrorKind::unsupported, "sparse_gradients",
         "sparse gradients must have one sparse dimension, be float32 and on the CPU; this one is {} with {} sparse "
         "dimensions, [{}]",
         c10::toString(sparse.scalar_type()), sparse.sparse_dim(), fmt::join(sparse.sizes(), ", "));
  }
  const auto ids = sparse._indices()[0].contiguous();
  const auto values = sparse._values().contiguous();
  const auto count = static_cast<std::size_t>(ids.numel());
  const auto dim = static_cast<std::size_t>(sparse.numel() / std::max<std::int64_t>(1, sparse.size(0)));
  const auto* first = ids.data_ptr<std::int64_t>();
  if (!sparse.is_coalesced()) return rows::sum_by_id({first, count}, values.data_ptr<float>(), dim);
  return {.ids = {first, first + count}, .values = {values.data_ptr<float>(), values.data_ptr<float>() + count * dim}};
}

at::Tensor sparse_gradient_of(const rows::SparseRows& rows, at::IntArrayRef sizes) {
  const auto count = static_cast<std::int64_t>(rows.ids.size());
  auto ids = torch::empty({1, count}, torch::kLong);
  auto values = torch::empty(with_rows(count, sizes), torch::kFloat);
  std::ranges::copy(rows.ids, ids.data_ptr<std::int64_t>());
  std::ranges::copy(rows.values, values.data_ptr<float>());
  return torch::sparse_coo_tensor(ids, values, sizes)._coalesced_(true);
}

void write_dense(const at::Tensor& sparse, const at::Tensor& dense) {
  if (!has_rows(sparse)) {
    dense.copy_(sparse.to_dense());
    return;
  }
  const auto rows = rows_of(sparse);
  dense.zero_();
  if (rows.ids.empty()) return;
  const auto ids = torch::from_blob(const_cast<std::int64_t*>(rows.ids.data()),
                                    {static_cast<std::int64_t>(rows.ids.size())}, torch::kLong);
  const auto values =
      torch::from_blob(const_cast<float*>(rows.values.data()),
                       with_rows(static_cast<std::int64_t>(rows.ids.size()), dense.sizes()), torch::kFloat);
  auto out = dense;
  out.index_copy_(0, ids, values);
}

at::Tensor numbers_of(const at::Tensor& gradient) { return gradient.is_sparse() ? gradient._values() : gradient; }

void settle_sparse_gradients(const std::vector<at::Tensor>& parameters, bool dense) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    auto& gradient = parameter.mutable_grad();
    if (!gradient.defined() || !gradient.is_sparse()) continue;
    if (dense) {
      auto whole = torch::empty_like(parameter);
      write_dense(gradient, whole);
      gradient = whole;
    } else if (!gradient.is_coalesced()) {
      gradient = has_rows(gradient) ? sparse_gradient_of(rows_of(gradient), gradient.sizes()) : gradient.coalesce();
    }
  }
}

}  // namespace lockstep::mirrored
