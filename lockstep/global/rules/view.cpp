// The rules of views: other shapes, dimension orders and parts of tensors. A sharded input dimension gives a sharded
// output dimension.
#include <lockstep/global/rules/signature.h>

#include <algorithm>
#include <array>

namespace lockstep::global {
namespace {

void add(std::vector<Signature>& signatures, const OpCall& call, const Placement& input, const Placement& output) {
  Signature signature = replicated(call);
  std::fill(signature.inputs.begin(), signature.inputs.end(), input);
  std::fill(signature.outputs.begin(), signature.outputs.end(), output);
  signatures.push_back(std::move(signature));
}

void keep_partials(std::vector<Signature>& signatures, const OpCall& call) {
  for (const ReduceOp op : kPartialOps) {
    add(signatures, call, Partial(op), Partial(op));
  }
}

std::size_t index_of(std::int64_t dim) { return static_cast<std::size_t>(dim); }

std::int64_t size_at(const Sizes& sizes, std::int64_t dim) { return sizes[index_of(dim)]; }

/// Compares both shapes in groups of dimensions with equal products. The first dimension of a group that is not 1 may
/// stay sharded, if its parts equal the parts of the group's first dimension in the other shape.
std::vector<Signature> reshape(const OpCall& call) {
  std::vector<Signature> signatures;
  if (call.overload == "dtype") return signatures;  // view(dtype) reinterprets the values
  const Sizes& from = call.tensors[0].sizes;
  const Sizes& to = call.outputs[0].sizes;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() && j < to.size()) {
    while (i < from.size() && from[i] == 1) ++i;
    while (j < to.size() && to[j] == 1) ++j;
    if (i == from.size() || j == to.size()) break;
    const std::size_t first_from = i;
    const std::size_t first_to = j;
    std::int64_t left = from[i++];
    std::int64_t right = to[j++];
    while (left != right && i <= from.size() && j <= to.size()) {
      if (left < right && i < from.size()) {
        left *= from[i++];
      } else if (left > right && j < to.size()) {
        right *= to[j++];
      } else {
        break;
      }
    }
    const bool alone = from[first_from] == to[first_to];
    if (alone || (call.divides_evenly(from[first_from]) && call.divides_evenly(to[first_to]))) {
      add(signatures, call, Shard(static_cast<std::int64_t>(first_from)), Shard(static_cast<std::int64_t>(first_to)));
    }
  }
  keep_partials(signatures, call);
  return signatures;
}

/// Input dimension i becomes output dimension order[i].
std::vector<Signature> reorder(const OpCall& call, const std::vector<std::int64_t>& order) {
  std::vector<Signature> signatures;
  for (std::size_t dim = 0; dim < order.size(); ++dim) {
    if (call.tensors[0].sizes[dim] > 1) add(signatures, call, Shard(static_cast<std::int64_t>(dim)), Shard(order[dim]));
  }
  keep_partials(signatures, call);
  return signatures;
}

std::vector<std::int64_t> identity_order(std::int64_t dims) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(dims));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  return order;
}

std::vector<Signature> transpose(const OpCall& call) {
  const auto dims = call.tensors[0].dim();
  auto order = identity_order(dims);
  if (dims > 0) {
    const auto a = call.name == "t" ? 0 : wrapped_dim(call.integer("dim0"), dims);
    const auto b = call.name == "t" ? dims - 1 : wrapped_dim(call.integer("dim1"), dims);
    std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  }
  return reorder(call, order);
}

std::vector<Signature> permute(const OpCall& call) {
  const auto dims = call.tensors[0].dim();
  std::vector<std::int64_t> order(static_cast<std::size_t>(dims));
  const auto given = call.integers("dims");
  for (std::size_t to = 0; to < given.size(); ++to) {
    order[static_cast<std::size_t>(wrapped_dim(given[to], dims))] = static_cast<std::int64_t>(to);
  }
  return reorder(call, order);
}

std::vector<Signature> expand(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& from = call.tensors[0];
  const auto added = call.outputs[0].dim() - from.dim();
  for (std::int64_t dim = 0; dim < from.dim(); ++dim) {
    if (size_at(from.sizes, dim) > 1) add(signatures, call, Shard(dim), Shard(dim + added));
  }
  keep_partials(signatures, call);
  return signatures;
}

/// Dimensions other than the one that the call slices or removes; with `removed`, that dimension is not in the output.
std::vector<Signature> beside_dim(const OpCall& call, std::int64_t at, bool removed) {
  std::vector<Signature> signatures;
  const auto& sizes = call.tensors[0].sizes;
  for (std::int64_t dim = 0; dim < call.tensors[0].dim(); ++dim) {
    if (dim == at || size_at(sizes, dim) < 2) continue;
    add(signatures, call, Shard(dim), Shard(removed && dim > at ? dim - 1 : dim));
  }
  keep_partials(signatures, call);
  return signatures;
}

std::vector<Signature> select(const OpCall& call) {
  return beside_dim(call, wrapped_dim(call.integer("dim"), call.tensors[0].dim()), true);
}

std::vector<Signature> cut(const OpCall& call) {
  const auto at = wrapped_dim(call.integer("dim"), call.tensors[0].dim());
  auto signatures = beside_dim(call, at, false);
  const bool whole = call.outputs.size() == 1 && call.outputs[0].sizes == call.tensors[0].sizes;
  if (call.name == "slice" && whole && size_at(call.outputs[0].sizes, at) > 1)
    add(signatures, call, Shard(at), Shard(at));
  return signatures;
}

/// The gradient of a slice: zero outside of it. `grad_output` has the shape of the slice.
std::vector<Signature> cut_backward(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& whole = call.outputs[0];
  const auto at = wrapped_dim(call.integer("dim"), whole.dim());
  const bool removed = call.name == "select_backward";
  for (std::int64_t dim = 0; dim < whole.dim(); ++dim) {
    if (dim == at || size_at(whole.sizes, dim) < 2) continue;
    add(signatures, call, Shard(removed && dim > at ? dim - 1 : dim), Shard(dim));
  }
  keep_partials(signatures, call);
  return signatures;
}

/// Dimensions of one row are added or removed; all other dimensions keep their order.
std::vector<Signature> squeeze(const OpCall& call) { return reshape(call); }

std::vector<Signature> cat(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& output = call.outputs[0];
  const auto at = wrapped_dim(call.integer("dim"), output.dim());
  const bool same_dims = std::all_of(call.tensors.begin(), call.tensors.end(),
                                     [&](const TensorInfo& each) { return each.dim() == output.dim(); });
  for (std::int64_t dim = 0; same_dims && dim < output.dim(); ++dim) {
    if (dim != at && size_at(output.sizes, dim) > 1) add(signatures, call, Shard(dim), Shard(dim));
  }
  keep_partials(signatures, call);
  return signatures;
}

std::vector<Signature> stack(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& output = call.outputs[0];
  const auto at = wrapped_dim(call.integer("dim"), output.dim());
  for (std::int64_t dim = 0; dim < output.dim(); ++dim) {
    if (dim != at && size_at(output.sizes, dim) > 1) add(signatures, call, Shard(dim < at ? dim : dim - 1), Shard(dim));
  }
  keep_partials(signatures, call);
  return signatures;
}

/// The rows of some dimensions are permuted; without a dimension argument, of all dimensions.
std::vector<Signature> moved_rows(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& sizes = call.tensors[0].sizes;
  const auto dims = call.integers("dims");
  std::vector<bool> moved(sizes.size(), dims.empty() && call.name == "roll");
  for (const auto dim : dims) {
    const auto at = static_cast<std::size_t>(wrapped_dim(dim, call.tensors[0].dim()));
    if (at < moved.size()) moved[at] = true;
  }
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (moved[dim] || sizes[dim] < 2) continue;
    add(signatures, call, Shard(static_cast<std::int64_t>(dim)), Shard(static_cast<std::int64_t>(dim)));
  }
  keep_partials(signatures, call);
  return signatures;
}

std::vector<Sizes> shape_of_self(const OpCall& call) { return {call.tensors[0].sizes}; }

std::vector<Signature> repeat(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& from = call.tensors[0];
  const auto times = call.integers("repeats");
  const auto added = call.outputs[0].dim() - from.dim();
  for (std::int64_t dim = 0; dim < from.dim(); ++dim) {
    if (size_at(from.sizes, dim) > 1 && times[static_cast<std::size_t>(dim + added)] == 1)
      add(signatures, call, Shard(dim), Shard(dim + added));
  }
  keep_partials(signatures, call);
  return signatures;
}

std::vector<Sizes> repeat_shapes(const OpCall& call) {
  Sizes sizes = call.integers("repeats");
  const auto& from = call.tensors[0].sizes;
  for (std::size_t i = 0; i < from.size() && i < sizes.size(); ++i)
    sizes[sizes.size() - 1 - i] *= from[from.size() - 1 - i];
  return {std::move(sizes)};
}

/// The local form shifts the diagonal to its position in this rank's part.
std::vector<Signature> triangle(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& output = call.outputs[0];
  for (std::int64_t dim = 0; dim < output.dim(); ++dim) {
    if (size_at(output.sizes, dim) > 1) add(signatures, call, Shard(dim), Shard(dim));
  }
  keep_partials(signatures, call);
  return signatures;
}

/// Windows along a dimension become a new last dimension.
std::vector<Signature> unfold(const OpCall& call) {
  return beside_dim(call, wrapped_dim(call.integer("dimension"), call.tensors[0].dim()), false);
}

/// Both dimensions are removed; the diagonal is the last dimension of the result.
std::vector<Signature> diagonal(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& from = call.tensors[0];
  const auto a = wrapped_dim(call.integer("dim1", 0), from.dim());
  const auto b = wrapped_dim(call.integer("dim2", 1), from.dim());
  std::int64_t to = 0;
  for (std::int64_t dim = 0; dim < from.dim(); ++dim) {
    if (dim == a || dim == b) continue;
    if (size_at(from.sizes, dim) > 1) add(signatures, call, Shard(dim), Shard(to));
    ++to;
  }
  keep_partials(signatures, call);
  return signatures;
}

constexpr std::string_view kReshape = "dimensions that begin a group of merged or split ones, when they divide evenly";
constexpr std::string_view kFollowed = "any dimension, partial";
constexpr std::string_view kBeside = "dimensions that are not cut, partial";

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "view", .signatures = reshape, .supports = kReshape},
    {.op = "_unsafe_view", .signatures = reshape, .supports = kReshape},
    {.op = "_reshape_alias", .signatures = reshape, .supports = kReshape},
    {.op = "reshape", .signatures = reshape, .supports = kReshape},
    {.op = "unsqueeze", .signatures = squeeze, .supports = kFollowed},
    {.op = "squeeze", .signatures = squeeze, .supports = kFollowed},
    {.op = "transpose", .signatures = transpose, .supports = kFollowed},
    {.op = "t", .signatures = transpose, .supports = kFollowed},
    {.op = "permute", .signatures = permute, .supports = kFollowed},
    {.op = "expand", .signatures = expand, .supports = kFollowed},
    {.op = "select", .signatures = select, .supports = kBeside},
    {.op = "unbind", .signatures = select, .supports = kBeside},
    {.op = "slice", .signatures = cut, .supports = kBeside},
    {.op = "split", .signatures = cut, .supports = kBeside},
    {.op = "split_with_sizes", .signatures = cut, .supports = kBeside},
    {.op = "unsafe_split", .signatures = cut, .supports = kBeside},
    {.op = "unsafe_split_with_sizes", .signatures = cut, .supports = kBeside},
    {.op = "select_backward", .signatures = cut_backward, .supports = kBeside},
    {.op = "slice_backward", .signatures = cut_backward, .supports = kBeside},
    {.op = "cat", .signatures = cat, .supports = kBeside},
    {.op = "stack", .signatures = stack, .supports = "any dimension, partial"},
    {.op = "flip", .signatures = moved_rows, .shapes = shape_of_self, .supports = "unaffected dimensions, partial"},
    {.op = "roll", .signatures = moved_rows, .shapes = shape_of_self, .supports = "unaffected dimensions, partial"},
    {.op = "repeat", .signatures = repeat, .shapes = repeat_shapes, .supports = "unaffected dimensions, partial"},
    {.op = "tril", .signatures = triangle, .supports = kFollowed},
    {.op = "triu", .signatures = triangle, .supports = kFollowed},
    {.op = "unfold", .signatures = unfold, .supports = kBeside},
    {.op = "diagonal", .signatures = diagonal, .supports = "the other dimensions, partial"},
});

// ---- views by strides

/// Dimensions of more than one row, sorted by descending strides.
std::vector<std::int64_t> outer_to_inner(const TensorInfo& info) {
  std::vector<std::int64_t> order;
  for (std::int64_t dim = 0; dim < info.dim(); ++dim) {
    if (info.sizes[index_of(dim)] > 1) order.push_back(dim);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return info.strides[index_of(a)] > info.strides[index_of(b)];
  });
  return order;
}

/// Whether no two elements share memory: each dimension fits into the next larger stride.
bool without_overlap(const TensorInfo& info, const std::vector<std::int64_t>& order) {
  std::int64_t reach = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    if (info.strides[index_of(*dim)] < reach) return false;
    reach = info.strides[index_of(*dim)] * info.sizes[index_of(*dim)];
  }
  return true;
}

}  // namespace

std::optional<std::vector<Cut>> as_cuts(const TensorInfo& self, const TensorInfo& view, std::int64_t offset) {
  const auto order = outer_to_inner(self);
  if (self.strides.size() != self.sizes.size() || view.strides.size() != view.sizes.size()) return std::nullopt;
  if (offset < 0 || !without_overlap(self, order)) return std::nullopt;
  std::vector<Cut> cuts(self.sizes.size());
  for (const auto dim : order) {
    cuts[index_of(dim)].begin = std::min(offset / self.strides[index_of(dim)], self.sizes[index_of(dim)] - 1);
    offset -= cuts[index_of(dim)].begin * self.strides[index_of(dim)];
  }
  if (offset != 0) return std::nullopt;
  for (std::int64_t to = 0; to < view.dim(); ++to) {
    if (view.sizes[index_of(to)] == 1) continue;
    // The base dimension of this view dimension: the outermost one whose stride divides the view's stride.
    const auto found = std::find_if(order.begin(), order.end(), [&](std::int64_t dim) {
      return view.strides[index_of(to)] >= self.strides[index_of(dim)];
    });
    if (view.sizes[index_of(to)] == 0 || found == order.end()) return std::nullopt;
    auto& cut = cuts[index_of(*found)];
    const auto stride = self.strides[index_of(*found)];
    if (cut.to || view.strides[index_of(to)] % stride != 0) return std::nullopt;
    cut.to = to;
    cut.step = view.strides[index_of(to)] / stride;
    cut.rows = view.sizes[index_of(to)];
    if (cut.begin + (cut.rows - 1) * cut.step >= self.sizes[index_of(*found)]) return std::nullopt;
  }
  return cuts;
}

namespace {

// Autograd uses as_strided for writes through views. If its strides are those of a slice and a permutation of
// dimensions, the dimensions that are not sliced may be sharded.
std::vector<Signature> as_strided(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& self = call.tensors[0];
  const auto cuts = as_cuts(self, call.outputs[0], call.integer("storage_offset", self.offset) - self.offset);
  if (!cuts) return signatures;
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    const auto& cut = (*cuts)[index_of(dim)];
    if (cut.to && cut.rows == self.sizes[index_of(dim)]) add(signatures, call, Shard(dim), Shard(*cut.to));
  }
  keep_partials(signatures, call);
  return signatures;
}

constexpr std::array kStridedRules = std::to_array<Rule>({
    {.op = "as_strided", .signatures = as_strided, .supports = "dimensions that it leaves whole, partial"},
});

}  // namespace

std::span<const Rule> view_rules() { return kRules; }
std::span<const Rule> strided_rules() { return kStridedRules; }

}  // namespace lockstep::global
