// The rules of indexing: rows selected, written and added by index. Dimensions that are not indexed may be sharded. A
// sharded index tensor selects from a replicated tensor, and adds to a partial one. Of embedding lookups the indices,
// or the table's rows (the vocabulary) or columns may be sharded.
#include <lockstep/global/rules/signature.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace lockstep::global {
namespace {

std::int64_t rows_of(const TensorInfo& info, std::int64_t dim) { return info.sizes[static_cast<std::size_t>(dim)]; }

/// A signature in which all inputs that are not listed are replicated.
Signature with(const OpCall& call, std::initializer_list<std::pair<std::size_t, Placement>> inputs,
               const Placement& output) {
  Signature signature = replicated(call);
  for (const auto& [index, placement] : inputs) signature.inputs[index] = placement;
  std::fill(signature.outputs.begin(), signature.outputs.end(), output);
  return signature;
}

/// Selection is linear: it can be applied to each summand of a partial value.
void pick_from_partials(std::vector<Signature>& signatures, const OpCall& call) {
  for (const ReduceOp op : kPartialOps) signatures.push_back(with(call, {{0, Partial(op)}}, Partial(op)));
}

/// self, dim, index [n]: the result has n rows along `dim`.
std::vector<Signature> index_select(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.info("self");
  const auto index = call.tensor("index");
  const auto along = wrapped_dim(call.integer("dim"), self.dim());
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    if (dim != along && rows_of(self, dim) > 1) signatures.push_back(with(call, {{0, Shard(dim)}}, Shard(dim)));
  }
  if (self.dim() > 0 && call.tensors[index].dim() == 1) {
    signatures.push_back(with(call, {{index, Shard(0)}}, Shard(along)));
  }
  pick_from_partials(signatures, call);
  return signatures;
}

std::vector<Sizes> index_select_shapes(const OpCall& call) {
  Sizes sizes = call.info("self").sizes;
  const auto along = static_cast<std::size_t>(wrapped_dim(call.integer("dim"), call.info("self").dim()));
  if (along < sizes.size()) sizes[along] = call.info("index").elements();
  return {std::move(sizes)};
}

/// self, dim, index: the result has the index's shape.
std::vector<Signature> gather(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.info("self");
  const auto at = call.tensor("index");
  const auto& index = call.tensors[at];
  if (self.dim() != index.dim()) return signatures;
  const auto along = wrapped_dim(call.integer("dim"), self.dim());
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    if (rows_of(index, dim) < 2) continue;
    if (dim == along) {
      signatures.push_back(with(call, {{at, Shard(dim)}}, Shard(dim)));
    } else if (rows_of(index, dim) == rows_of(self, dim)) {
      signatures.push_back(with(call, {{0, Shard(dim)}, {at, Shard(dim)}}, Shard(dim)));
    }
  }
  pick_from_partials(signatures, call);
  return signatures;
}

/// self, dim, index, and `src` of the index's shape or a number.
std::vector<Signature> scatter(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.info("self");
  const auto at = call.tensor("index");
  const auto& index = call.tensors[at];
  const bool from_tensor = call.tensors.size() > 2;
  const auto& source = call.tensors.back();
  if (self.dim() != index.dim() || (from_tensor && source.dim() != self.dim())) return signatures;
  const auto along = wrapped_dim(call.integer("dim"), self.dim());
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    const auto rows = rows_of(index, dim);
    if (rows < 2 || (from_tensor && rows_of(source, dim) != rows)) continue;
    if (dim != along && rows_of(self, dim) == rows) {
      Signature signature = with(call, {{0, Shard(dim)}, {at, Shard(dim)}}, Shard(dim));
      if (from_tensor) signature.inputs.back() = Shard(dim);
      signatures.push_back(std::move(signature));
    } else if (dim == along && call.name == "scatter_add") {
      signatures.push_back(with(call, {{0, Partial()}, {at, Shard(dim)}, {2, Shard(dim)}}, Partial()));
    }
  }
  return signatures;
}

/// index_add(self, dim, index, source), index_copy, index_fill(self, dim, index, value).
std::vector<Signature> into_rows(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.info("self");
  const auto along = wrapped_dim(call.integer("dim"), self.dim());
  const bool from_tensor = call.tensors.size() > 2 && call.tensors[2].dim() == self.dim();
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    if (dim == along || rows_of(self, dim) < 2) continue;
    Signature signature = with(call, {{0, Shard(dim)}}, Shard(dim));
    if (from_tensor) signature.inputs[2] = Shard(dim);
    signatures.push_back(std::move(signature));
  }
  if (call.name == "index_add" && from_tensor && self.dim() > 0 && call.tensors[1].dim() == 1) {
    signatures.push_back(with(call, {{0, Partial()}, {1, Shard(0)}, {2, Shard(along)}}, Partial()));
  }
  return signatures;
}

/// The dimensions of the result of x[indices]: those of x, and those of the indices, which are broadcast together.
struct Indexed {
  std::vector<std::optional<std::int64_t>> kept;  ///< by dimension of x: its position in the result; nullopt: indexed
  TensorInfo numbers;                             ///< the shape that the indices are broadcast to
  std::int64_t numbers_at = 0;                    ///< its position in the result
  TensorInfo result;
};

Indexed read_indices(const OpCall& call, const TensorInfo& self, const TensorsAt& indices) {
  const auto given = [&](std::int64_t dim) {
    return dim < static_cast<std::int64_t>(indices.count) &&
           call.tensors[indices.first + static_cast<std::size_t>(dim)].defined;
  };
  OpCall numbers;
  std::vector<std::int64_t> indexed;
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    if (!given(dim)) continue;
    indexed.push_back(dim);
    numbers.tensors.push_back(call.tensors[indices.first + static_cast<std::size_t>(dim)]);
  }
  Indexed out;
  out.kept.resize(self.sizes.size());
  out.numbers.sizes = broadcast_shape(numbers).front();
  const bool together =
      !indexed.empty() && indexed.back() - indexed.front() + 1 == static_cast<std::int64_t>(indexed.size());
  out.numbers_at = together ? indexed.front() : 0;
  const auto put_numbers = [&] {
    out.result.sizes.insert(out.result.sizes.end(), out.numbers.sizes.begin(), out.numbers.sizes.end());
  };
  if (!together) put_numbers();
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    if (together && dim == indexed.front()) put_numbers();
    if (given(dim)) continue;
    out.kept[static_cast<std::size_t>(dim)] = out.result.dim();
    out.result.sizes.push_back(rows_of(self, dim));
  }
  return out;
}

/// Whether all indices are integers. Boolean masks select a number of elements that depends on their values.
bool all_numbers(const OpCall& call, const TensorsAt& indices) {
  for (std::size_t i = 0; i < indices.count; ++i) {
    const auto& each = call.tensors[indices.first + i];
    if (each.defined && each.element_bytes == 1) return false;
  }
  return indices.count > 0;
}

/// Whether the only index is a mask of the first dimensions, as in x[mask].
bool is_mask_of_rows(const OpCall& call, const TensorInfo& self, const TensorsAt& indices) {
  if (indices.count != 1) return false;
  const auto& mask = call.tensors[indices.first];
  return mask.defined && mask.truth && mask.dim() > 0 && mask.dim() <= self.dim() && mask.sizes[0] > 1 &&
         std::equal(mask.sizes.begin(), mask.sizes.end(), self.sizes.begin());
}

std::vector<Signature> index(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.info("self");
  const auto indices = call.tensor_list("indices");
  if (is_mask_of_rows(call, self, indices)) {  // as masked_select
    signatures.push_back(with(call, {{0, Shard(0)}, {indices.first, Shard(0)}}, Shard(0)));
  }
  if (!all_numbers(call, indices)) return signatures;
  const auto how = read_indices(call, self, indices);
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    const auto& kept = how.kept[static_cast<std::size_t>(dim)];
    if (kept && rows_of(self, dim) > 1) signatures.push_back(with(call, {{0, Shard(dim)}}, Shard(*kept)));
  }
  for (std::int64_t dim = 0; dim < how.numbers.dim(); ++dim) {
    if (rows_of(how.numbers, dim) < 2) continue;
    Signature signature = with(call, {}, Shard(how.numbers_at + dim));
    for (std::size_t i = 0; i < indices.count; ++i) {
      const auto& each = call.tensors[indices.first + i];
      if (each.defined) signature.inputs[indices.first + i] = shard_like_output(each, how.numbers, dim);
    }
    signatures.push_back(std::move(signature));
  }
  pick_from_partials(signatures, call);
  return signatures;
}

/// x[indices] = values, or += values.
std::vector<Signature> index_put(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.info("self");
  const auto indices = call.tensor_list("indices");
  const auto values = call.tensor("values");
  if (is_mask_of_rows(call, self, indices)) {
    signatures.push_back(with(call, {{0, Shard(0)}, {indices.first, Shard(0)}}, Shard(0)));
  }
  if (!all_numbers(call, indices)) return signatures;
  const auto how = read_indices(call, self, indices);
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    const auto& kept = how.kept[static_cast<std::size_t>(dim)];
    if (!kept || rows_of(self, dim) < 2) continue;
    Signature signature = with(call, {{0, Shard(dim)}}, Shard(dim));
    signature.inputs[values] = shard_like_output(call.tensors[values], how.result, *kept);
    signatures.push_back(std::move(signature));
  }
  if (!call.flag("accumulate")) return signatures;
  for (std::int64_t dim = 0; dim < how.numbers.dim(); ++dim) {
    if (rows_of(how.numbers, dim) < 2) continue;
    Signature signature = with(call, {{0, Partial()}}, Partial());
    for (std::size_t i = 0; i < indices.count; ++i) {
      const auto& each = call.tensors[indices.first + i];
      if (each.defined) signature.inputs[indices.first + i] = shard_like_output(each, how.numbers, dim);
    }
    signature.inputs[values] = shard_like_output(call.tensors[values], how.result, how.numbers_at + dim);
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

/// The result has as many rows as the mask selects on all ranks, which each rank gets: its sizes are unknown before.
/// Only rows may be sharded, so that the result is the concatenation of the ranks' selections.
std::vector<Signature> masked_select(const OpCall& call) {
  const auto shape = broadcast(call);
  if (shape.dim() == 0 || shape.sizes[0] < 2) return {};
  Signature signature = replicated(call);
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    signature.inputs[i] = shard_like_output(call.tensors[i], shape, 0);
  }
  return {std::move(signature)};
}

/// self, mask, and `source`, from which the elements of the mask are filled in order.
std::vector<Signature> masked_scatter(const OpCall& call) {
  const auto& self = call.info("self");
  if (call.outputs[0].sizes != self.sizes || self.dim() == 0 || self.sizes[0] < 2) return {};
  const auto mask = call.tensor("mask");
  Signature signature = with(call, {{0, Shard(0)}}, Shard(0));
  signature.inputs[mask] = shard_like_output(call.tensors[mask], self, 0);
  return {std::move(signature)};
}

std::vector<Sizes> unknown(const OpCall&) { return {}; }

std::vector<Sizes> shape_of_self(const OpCall& call) { return {call.tensors[0].sizes}; }

/// The shape of a call without a meta kernel, which is a call with a mask.
std::vector<Sizes> unknown_of_mask(const OpCall& call) {
  if (!is_mask_of_rows(call, call.info("self"), call.tensor_list("indices"))) throw std::out_of_range("other masks");
  return {};
}

constexpr std::string_view kPickRows = "dimensions that are not indexed, the indices, partial";
constexpr std::string_view kAddRows = "dimensions that are not indexed; the indices, into a partial sum";
constexpr std::string_view kPick = "dimensions that are not indexed, the indices, partial; dimension 0 of a mask";
constexpr std::string_view kPut = "dimensions that are not indexed";
constexpr std::string_view kAdd =
    "dimensions that are not indexed; the indices, into a partial sum; dimension 0 of a mask";

constexpr std::array kIndexingRules = std::to_array<Rule>({
    {.op = "index_select", .signatures = index_select, .shapes = index_select_shapes, .supports = kPickRows},
    {.op = "gather", .signatures = gather, .supports = kPickRows},
    {.op = "index", .signatures = index, .shapes = unknown_of_mask, .supports = kPick},
    {.op = "scatter", .signatures = scatter, .supports = kPut},
    {.op = "scatter_add", .signatures = scatter, .supports = kAddRows},
    {.op = "index_add", .signatures = into_rows, .supports = kAddRows},
    {.op = "index_copy", .signatures = into_rows, .supports = kPut},
    {.op = "index_fill", .signatures = into_rows, .shapes = shape_of_self, .supports = kPut},
    {.op = "index_put", .signatures = index_put, .shapes = shape_of_self, .supports = kAdd},
    {.op = "masked_select",
     .signatures = masked_select,
     .shapes = unknown,
     .supports = "dimension 0; the selected elements are gathered"},
    {.op = "masked_scatter",
     .signatures = masked_scatter,
     .shapes = shape_of_self,
     .supports = "dimension 0 of all but the source"},
    {.op = "_index_put_impl", .signatures = index_put, .shapes = shape_of_self, .supports = kAdd},
});

}  // namespace

std::span<const Rule> indexing_rules() { return kIndexingRules; }

namespace {

std::vector<Sizes> embedding_shapes(const OpCall& call) {
  Sizes sizes = call.info("indices").sizes;
  sizes.push_back(call.info("weight").sizes[1]);
  return {sizes};
}

std::vector<Signature> embedding(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& indices = call.info("indices");
  for (std::int64_t dim = 0; dim < indices.dim(); ++dim) {
    if (indices.sizes[static_cast<std::size_t>(dim)] > 1) {
      signatures.push_back(placing(call, {{"indices", Shard(dim)}}, {Shard(dim)}));
    }
  }
  signatures.push_back(placing(call, {{"weight", Shard(0)}}, {Partial()}));
  signatures.push_back(placing(call, {{"weight", Shard(1)}}, {Shard(indices.dim())}));
  return signatures;
}

std::vector<Sizes> embedding_backward_shapes(const OpCall& call) {
  return {{call.integer("num_weights"), call.info("grad_output").sizes.back()}};
}

/// The frequencies are those of the logical batch, so the indices are replicated if gradients are scaled by frequency.
std::vector<Signature> embedding_backward(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& indices = call.info("indices");
  for (std::int64_t dim = 0; dim < indices.dim() && !call.flag("scale_grad_by_freq"); ++dim) {
    if (indices.sizes[static_cast<std::size_t>(dim)] > 1) {
      signatures.push_back(placing(call, {{"indices", Shard(dim)}, {"grad_output", Shard(dim)}}, {Partial()}));
    }
  }
  signatures.push_back(placing(call, {{"grad_output", Shard(indices.dim())}}, {Shard(1)}));
  return signatures;
}

constexpr std::array kEmbeddingRules = std::to_array<Rule>({
    {.op = "embedding",
     .signatures = embedding,
     .shapes = embedding_shapes,
     .supports = "indices; rows of the table (partial sum); columns"},
    {.op = "embedding_dense_backward",
     .signatures = embedding_backward,
     .shapes = embedding_backward_shapes,
     .supports = "indices (partial sum); columns of the table"},
});

}  // namespace

std::span<const Rule> embedding_rules() { return kEmbeddingRules; }

}  // namespace lockstep::global
