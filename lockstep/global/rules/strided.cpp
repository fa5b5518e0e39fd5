// The rules of as_strided, which autograd uses for writes through views. If its strides are those of a slice and a
// permutation of dimensions, the dimensions that are not sliced may be sharded.
#include <lockstep/global/rules/signature.h>
#include <lockstep/global/rules/strided.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace lockstep::global {
namespace {

std::size_t at(std::int64_t dim) { return static_cast<std::size_t>(dim); }

/// Dimensions of more than one row, sorted by descending strides.
std::vector<std::int64_t> outer_to_inner(const TensorInfo& info) {
  std::vector<std::int64_t> order;
  for (std::int64_t dim = 0; dim < info.dim(); ++dim) {
    if (info.sizes[at(dim)] > 1) order.push_back(dim);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return info.strides[at(a)] > info.strides[at(b)]; });
  return order;
}

/// Whether no two elements share memory: each dimension fits into the next larger stride.
bool without_overlap(const TensorInfo& info, const std::vector<std::int64_t>& order) {
  std::int64_t reach = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    if (info.strides[at(*dim)] < reach) return false;
    reach = info.strides[at(*dim)] * info.sizes[at(*dim)];
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
    cuts[at(dim)].begin = std::min(offset / self.strides[at(dim)], self.sizes[at(dim)] - 1);
    offset -= cuts[at(dim)].begin * self.strides[at(dim)];
  }
  if (offset != 0) return std::nullopt;
  for (std::int64_t to = 0; to < view.dim(); ++to) {
    if (view.sizes[at(to)] == 1) continue;
    // The base dimension of this view dimension: the outermost one whose stride divides the view's stride.
    const auto found = std::find_if(order.begin(), order.end(),
                                    [&](std::int64_t dim) { return view.strides[at(to)] >= self.strides[at(dim)]; });
    if (view.sizes[at(to)] == 0 || found == order.end()) return std::nullopt;
    auto& cut = cuts[at(*found)];
    const auto stride = self.strides[at(*found)];
    if (cut.to || view.strides[at(to)] % stride != 0) return std::nullopt;
    cut.to = to;
    cut.step = view.strides[at(to)] / stride;
    cut.rows = view.sizes[at(to)];
    if (cut.begin + (cut.rows - 1) * cut.step >= self.sizes[at(*found)]) return std::nullopt;
  }
  return cuts;
}

namespace {

std::vector<Signature> as_strided(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto add = [&](const Placement& input, const Placement& output) {
    Signature signature = replicated(call);
    signature.inputs[0] = input;
    signature.outputs[0] = output;
    signatures.push_back(std::move(signature));
  };
  const auto& self = call.tensors[0];
  const auto cuts = as_cuts(self, call.outputs[0], call.integer("storage_offset", self.offset) - self.offset);
  if (!cuts) return signatures;
  for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
    const auto& cut = (*cuts)[at(dim)];
    if (cut.to && cut.rows == self.sizes[at(dim)]) add(Shard(dim), Shard(*cut.to));
  }
  for (const ReduceOp op : kPartialOps) add(Partial(op), Partial(op));
  return signatures;
}

constexpr std::array kRules = std::to_array<Rule>({
    {.op = "as_strided", .signatures = as_strided, .supports = "dimensions that it leaves whole, partial"},
});

}  // namespace

std::span<const Rule> strided_rules() { return kRules; }

}  // namespace lockstep::global
