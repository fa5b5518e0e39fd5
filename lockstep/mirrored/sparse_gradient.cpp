// Conversions between libtorch's sparse COO gradients, rows sorted by id, and dense gradients. The exchange of rows by
// all_gather: counts first, then padded ids and values, added up along the sum tree.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/mirrored/sparse_gradient.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

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

namespace {

std::size_t dim_of(const at::Tensor& parameter) {
  return static_cast<std::size_t>(parameter.numel() / std::max<std::int64_t>(1, parameter.size(0)));
}

/// The contribution of this rank.
rows::SparseRows own_rows(const RowSlot& slot, bool mean, int ranks) {
  const auto& gradient = slot.parameter.grad();
  if (!gradient.defined()) return {};
  auto rows = rows_of(gradient);
  if (!mean && !slot.used && slot.reduced) {
    for (auto& value : rows.values) value /= static_cast<float>(ranks);
  }
  return rows;
}

/// Numbers of rows by rank and slot, and the slots that a rank used.
class RowCounts {
 public:
  RowCounts(const std::vector<RowSlot>& slots, const std::vector<rows::SparseRows>& own, bool gave_up,
            const Group& group)
      : slots_(static_cast<std::int64_t>(slots.size())), ranks_(group.size()) {
    auto counts = torch::zeros({2, slots_}, torch::kLong);
    auto* numbers = counts.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      numbers[i] = static_cast<std::int64_t>(own[i].ids.size());
      const bool uses = slots[i].used && slots[i].parameter.grad().defined();
      numbers[slots.size() + i] = uses && !gave_up ? 1 : 0;
    }
    all_ = all_gather(counts, group);
  }

  std::int64_t rows(int rank, std::size_t slot) const { return at(2 * rank, slot); }
  bool used_anywhere(std::size_t slot) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (at(2 * rank + 1, slot) != 0) return true;
    }
    return false;
  }

 private:
  std::int64_t at(std::int64_t line, std::size_t slot) const {
    return all_.data_ptr<std::int64_t>()[line * slots_ + static_cast<std::int64_t>(slot)];
  }

  std::int64_t slots_;
  int ranks_;
  at::Tensor all_;  // [2 ranks, slots]
};

/// The concatenated arrays `own` of all ranks, each padded to the longest.
template <typename Number>
at::Tensor gather_padded(const std::vector<rows::SparseRows>& own, std::vector<Number> rows::SparseRows::*numbers,
                         std::int64_t longest, at::ScalarType dtype, const Group& group) {
  auto sent = torch::zeros({longest}, dtype);
  auto* out = sent.data_ptr<Number>();
  for (const auto& rows : own) out = std::ranges::copy(rows.*numbers, out).out;
  return all_gather(sent, group);
}

}  // namespace

void require_rows(const RowSlot& slot) {
  const auto& gradient = slot.parameter.grad();
  if (!gradient.defined() || gradient.is_sparse()) return;
  fail(ErrorKind::unsupported, "data_parallel",
       "parameter \"{}\" is the table of a sparse embedding and got a dense gradient, from another use of it; reduce "
       "whole tables with parallel.sparse_gradients=dense (DataParallelOptions::sparse_gradients)",
       slot.name);
}

void share_old_rows(RowSlot& slot, int ranks) {
  if (!std::exchange(slot.reduced, false)) return;
  auto& gradient = slot.parameter.mutable_grad();
  const torch::NoGradGuard no_grad;
  if (gradient.defined()) gradient._values().div_(ranks);
}

void exchange_rows(std::vector<RowSlot>& slots, bool gave_up, bool mean, const Group& group) {
  if (slots.empty()) return;
  const torch::NoGradGuard no_grad;
  std::vector<rows::SparseRows> own(slots.size());
  for (std::size_t i = 0; i < slots.size() && !gave_up; ++i) own[i] = own_rows(slots[i], mean, group.size());
  const RowCounts counts(slots, own, gave_up, group);

  std::int64_t most_ids = 0, most_values = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::int64_t ids = 0, values = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      ids += counts.rows(rank, i);
      values += counts.rows(rank, i) * static_cast<std::int64_t>(dim_of(slots[i].parameter));
    }
    most_ids = std::max(most_ids, ids);
    most_values = std::max(most_values, values);
  }
  // Lengths follow from the counts, so that they are equal on all ranks.
  const auto unchecked = group.unchecked();
  const auto ids = gather_padded(own, &rows::SparseRows::ids, most_ids, torch::kLong, unchecked);
  const auto values = gather_padded(own, &rows::SparseRows::values, most_values, torch::kFloat, unchecked);

  if (gave_up) return;  // this rank is in its next backward already, with new gradients

  std::vector<std::vector<rows::SparseRowsView>> views(slots.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto* next_id = ids.data_ptr<std::int64_t>() + rank * most_ids;
    const auto* next_value = values.data_ptr<float>() + rank * most_values;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const auto count = static_cast<std::size_t>(counts.rows(rank, i));
      views[i].push_back({{next_id, count}, next_value});
      next_id += count;
      next_value += count * dim_of(slots[i].parameter);
    }
  }
  const float divisor = mean ? static_cast<float>(group.size()) : 1.0F;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    auto& slot = slots[i];
    slot.used = false;
    if (!counts.used_anywhere(i)) continue;
    const auto sums = rows::sum_over_ranks(views[i], dim_of(slot.parameter), reduction::left_of, divisor);
    slot.parameter.mutable_grad() = sparse_gradient_of(sums, slot.parameter.sizes());
    slot.reduced = true;
  }
}

}  // namespace lockstep::mirrored
