// The mesh axes that divide a dimension, and reductions and gathers along them with their traffic counted.
#include <lockstep/global/local/across_ranks.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace lockstep::global {
const Placements& placements_of_input(const LocalCall& call, std::string_view argument) {
  return call.input(call.plan.call.tensor(argument));
}

Axes axes_that_divide(const LocalCall& call, const Placements& placements, std::int64_t dim) {
  Axes axes;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard(dim) && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

Axes axes_that_divide_others(const LocalCall& call, const Placements& placements, std::int64_t dim) {
  Axes axes;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    const auto& each = placements[axis];
    if (each.is_shard() && !each.is_shard(dim) && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  return axes;
}

Part part_of_input(const LocalCall& call, std::string_view argument, std::int64_t dim) {
  const auto size = call.plan.call.info(argument).sizes[static_cast<std::size_t>(dim)];
  return part_of(size, dim, placements_of_input(call, argument), call.mesh.sizes(), call.mesh.coordinate());
}

bool adds_once(const LocalCall& call, const Placements& placements) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_partial() && call.mesh.coordinate()[axis] != 0) return false;
  }
  return true;
}

void reduce_over(const LocalCall& call, const Axes& axes, at::Tensor& value, ReduceOp op) {
  if (axes.empty()) return;
  value = value.contiguous();
  for (const auto axis : axes) {
    call.mesh.traffic().all_reduce.count(value.nbytes());
    all_reduce(value, call.mesh.group(axis), op);
  }
}

at::Tensor gather_along(const LocalCall& call, std::size_t axis, const at::Tensor& value) {
  const auto sent = value.contiguous().unsqueeze(0);
  call.mesh.traffic().all_gather.count(sent.nbytes());
  return all_gather(sent, call.mesh.group(axis));
}

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
