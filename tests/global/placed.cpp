#include "placed.h"

#include <lockstep/global/placement.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>

namespace lockstep::test {
namespace {

/// This rank's contribution: exact in binary, so that reductions are exact, too.
at::Tensor contribution(const at::Tensor& value, ReduceOp op, int rank, int ranks) {
  switch (op) {
    case ReduceOp::max: return value - (ranks - 1 - rank);
    case ReduceOp::min: return value + rank;
    case ReduceOp::mean: return value + (rank - (ranks - 1) / 2.0);
    default: return rank == 0 ? value - ranks * (ranks - 1) / 2 : at::full_like(value, rank);
  }
}

}  // namespace

at::Tensor placed(const at::Tensor& full, const Mesh& mesh, const Placements& placements) {
  const at::NoGradGuard no_grad;
  at::Tensor part = full.detach();
  for (std::int64_t dim = 0; dim < full.dim(); ++dim) {
    const auto rows = global::part_of(full.size(dim), dim, placements, mesh.sizes(), mesh.coordinate());
    part = part.narrow(dim, rows.begin, rows.size);
  }
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_partial())
      part = contribution(part, placements[axis].op, mesh.coordinate()[axis], mesh.size(axis));
  }
  return global::make_global({.mesh = mesh.state(),
                              .sharding = mesh.state()->intern(placements),
                              .local = part.clone(at::MemoryFormat::Contiguous)},
                             {.sizes = full.sizes().vec(), .strides = global::row_major_strides(full.sizes())});
}

std::vector<Placement> ways_to_lie(std::int64_t dims, bool partial) {
  std::vector<Placement> ways{Replicate()};
  for (std::int64_t dim = 0; dim < dims; ++dim) ways.push_back(Shard(dim));
  if (partial) {
    for (const auto op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) ways.push_back(Partial(op));
  }
  return ways;
}

}  // namespace lockstep::test
