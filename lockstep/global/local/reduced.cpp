#include <lockstep/global/local/reduced.h>

#include <algorithm>
#include <numeric>

namespace lockstep::global {

std::vector<std::int64_t> dims_or_all(const LocalCall& call) {
  const auto count = call.plan.call.tensors[0].dim();
  auto dims = call.plan.call.integers("dim");
  for (auto& dim : dims) dim = wrapped_dim(dim, count);
  if (!dims.empty()) return dims;
  dims.resize(static_cast<std::size_t>(count));
  std::iota(dims.begin(), dims.end(), std::int64_t{0});
  return dims;
}

Axes axes_to_join(const LocalCall& call) {
  const auto dims = dims_or_all(call);
  Axes axes;
  for (std::size_t axis = 0; axis < call.mesh.sizes().size(); ++axis) {
    const auto& placement = call.input(0)[axis];
    const bool reduced = placement.is_shard() && std::find(dims.begin(), dims.end(), placement.dim) != dims.end();
    if (reduced && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

}  // namespace lockstep::global
