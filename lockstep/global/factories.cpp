// Global tensors from values: constants are made part by part, random numbers in full on every rank and then cut.
#include <lockstep/base/error.h>
#include <lockstep/global/factories.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/redistribute.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep {
namespace {

void check_lie(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements, std::string_view where) {
  if (placements.size() != mesh.axes()) {
    fail(ErrorKind::invalid_argument, where, "{} placements for the {} axes of mesh {}; one for each is needed",
         placements.size(), mesh.axes(), to_string(mesh));
  }
  for (const auto& each : placements) {
    if (each.is_shard() && each.dim >= static_cast<std::int64_t>(sizes.size())) {
      fail(ErrorKind::invalid_argument, where, "{} of a tensor with {} dimensions; they count from 0", to_string(each),
           sizes.size());
    }
  }
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; }))
    fail(ErrorKind::invalid_argument, where, "a size is negative");
}

at::TensorOptions of_part(const Mesh& mesh, const at::TensorOptions& options) {
  return at::TensorOptions(mesh.device()).dtype(options.dtype());
}

at::Tensor made(const at::Tensor& part, at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options) {
  return global::make_global({.mesh = mesh.state(), .sharding = mesh.state()->intern(placements), .local = part},
                             {.sizes = sizes.vec(), .strides = global::row_major_strides(sizes)})
      .set_requires_grad(options.requires_grad());
}

/// Whether this rank's part of a partial sum is zero: the first rank along each such axis holds the value.
bool holds_nothing(const Mesh& mesh, const Placements& placements) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_partial(ReduceOp::sum) && mesh.coordinate()[axis] != 0) return true;
  }
  return false;
}

}  // namespace

at::Tensor full(at::IntArrayRef sizes, const at::Scalar& value, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options) {
  check_lie(sizes, mesh, placements, "full");
  const auto part_sizes = global::local_sizes(sizes, placements, mesh.sizes(), mesh.coordinate());
  const auto part = holds_nothing(mesh, placements) ? at::zeros(part_sizes, of_part(mesh, options))
                                                    : at::full(part_sizes, value, of_part(mesh, options));
  return made(part, sizes, mesh, placements, options);
}

at::Tensor zeros(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                 const at::TensorOptions& options) {
  return full(sizes, 0, mesh, placements, options);
}

at::Tensor ones(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options) {
  return full(sizes, 1, mesh, placements, options);
}

at::Tensor rand(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                const at::TensorOptions& options) {
  check_lie(sizes, mesh, placements, "rand");
  const auto whole = at::rand(sizes, of_part(mesh, options));
  return made(global::part_of_full(whole, *mesh.state(), placements), sizes, mesh, placements, options);
}

at::Tensor randn(at::IntArrayRef sizes, const Mesh& mesh, const Placements& placements,
                 const at::TensorOptions& options) {
  check_lie(sizes, mesh, placements, "randn");
  const auto whole = at::randn(sizes, of_part(mesh, options));
  return made(global::part_of_full(whole, *mesh.state(), placements), sizes, mesh, placements, options);
}

}  // namespace lockstep
