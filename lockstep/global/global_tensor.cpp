// The public conversions of global tensors: checks of arguments, and of equal sizes and memory format on all ranks. And
// global tensors from values: constants are made part by part, random numbers in full on every rank and then cut.
#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/dispatch/planner.h>
#include <lockstep/global/factories.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/redistribute.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {
namespace {

global::TensorState& checked_state(const at::Tensor& tensor, std::string_view where) {
  if (!global::is_global(tensor)) {
    fail(ErrorKind::invalid_argument, where,
         "the tensor is {}; a global one is needed, which distribute() or to_global() makes of an ordinary one",
         tensor.defined() ? "an ordinary tensor, " + detail::describe(tensor) : "undefined");
  }
  return global::state_of(tensor);
}

void check_ordinary(const at::Tensor& tensor, std::string_view where) {
  if (!tensor.defined() || global::is_global(tensor)) {
    fail(ErrorKind::invalid_argument, where, "an ordinary tensor is needed, not {}",
         tensor.defined() ? "a global one; redistribute() changes its placements" : "an undefined one");
  }
}

void check_placements(const Placements& placements, std::int64_t dims, const Mesh& mesh, std::string_view where) {
  if (placements.size() != mesh.axes()) {
    fail(ErrorKind::invalid_argument, where, "{} placements for the {} axes of mesh {}; one for each is needed",
         placements.size(), mesh.axes(), to_string(mesh));
  }
  for (const auto& each : placements) {
    if (each.is_shard() && each.dim >= dims) {
      fail(ErrorKind::invalid_argument, where, "{} of a tensor with {} dimensions; they count from 0", to_string(each),
           dims);
    }
  }
}

/// The logical size of `dim`: the sum of the parts along the axes that shard it, innermost axis first.
std::int64_t logical_size(std::int64_t local, std::int64_t dim, const Mesh& mesh, const Placements& placements) {
  auto size = at::tensor({local});
  for (std::size_t axis = placements.size(); axis-- > 0;) {
    if (placements[axis].is_shard(dim) && mesh.size(axis) > 1) all_reduce(size, mesh.group(axis));
  }
  return size.item<std::int64_t>();
}

/// The logical sizes and memory format: channels_last if all parts are. An empty part has no recognizable format.
global::Whole logical_whole(const at::Tensor& local, const Mesh& mesh, const Placements& placements) {
  auto sizes = local.sizes().vec();
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    sizes[dim] = logical_size(sizes[dim], static_cast<std::int64_t>(dim), mesh, placements);
  }
  const auto format = local.suggest_memory_format();
  const bool row_by_row = format == at::MemoryFormat::Contiguous;
  const bool fits = global::local_sizes(sizes, placements, mesh.sizes(), mesh.coordinate()) == local.sizes().vec();
  auto found = at::tensor({fits ? 0 : 1, local.numel() > 0 && row_by_row ? 1 : 0, row_by_row ? 0 : 1});
  all_reduce(found, mesh.group(), ReduceOp::max);
  const auto* any = found.data_ptr<int>();
  if (any[0] != 0) {
    fail(ErrorKind::mismatch, "to_global",
         "the parts do not make one tensor: together they are [{}], of which this rank's part would be [{}], not [{}]; "
         "the first "
         "ranks along an axis hold one row more where rows do not divide evenly",
         fmt::join(sizes, ", "),
         fmt::join(global::local_sizes(sizes, placements, mesh.sizes(), mesh.coordinate()), ", "),
         fmt::join(local.sizes().vec(), ", "));
  }
  constexpr std::array kFormats{at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d};
  const bool channels_last = any[1] == 0 && any[2] != 0;
  const auto last = kFormats[sizes.size() == 5 ? 1 : 0];
  return {.sizes = std::move(sizes), .format = channels_last ? last : at::MemoryFormat::Contiguous};
}

}  // namespace

c10::Device global_device() { return {global::kDeviceType, 0}; }

bool is_global(const at::Tensor& tensor) { return global::is_global(tensor); }

Mesh mesh_of(const at::Tensor& tensor) { return Mesh(checked_state(tensor, "mesh_of").mesh); }

Placements placements_of(const at::Tensor& tensor) {
  return checked_state(tensor, "placements_of").sharding->placements;
}

std::vector<std::int64_t> local_sizes_of(const at::Tensor& tensor) {
  return checked_state(tensor, "local_sizes_of").local.sizes().vec();
}

std::string describe(const at::Tensor& tensor) {
  if (!global::is_global(tensor)) return detail::describe(tensor);
  const auto& state = global::state_of(tensor);
  return fmt::format("{}[{}] on {}: {}, here [{}]", detail::dtype_name(tensor.scalar_type()),
                     fmt::join(tensor.sizes().vec(), ", "), to_string(Mesh(state.mesh)),
                     to_string(state.sharding->placements), fmt::join(state.local.sizes().vec(), ", "));
}

at::Tensor to_global(const at::Tensor& local, const Mesh& mesh, const Placements& placements) {
  check_ordinary(local, "to_global");
  check_placements(placements, local.dim(), mesh, "to_global");
  const global::OperatorScope on_trace("to_global", *mesh.state(), local, placements);
  return global::differentiable_to_global(local.to(mesh.device()), mesh, placements,
                                          logical_whole(local, mesh, placements));
}

at::Tensor distribute(const at::Tensor& full_tensor, const Mesh& mesh, const Placements& placements, Source source) {
  check_ordinary(full_tensor, "distribute");
  check_placements(placements, full_tensor.dim(), mesh, "distribute");
  const auto format = full_tensor.suggest_memory_format();
  const auto* what = format == at::MemoryFormat::Contiguous ? "distribute" : "distribute, channels last,";
  const global::OperatorScope on_trace(what, *mesh.state(), full_tensor, placements);
  at::Tensor values = full_tensor.to(mesh.device());
  if (source == Source::rank0 && mesh.group().size() > 1) {
    values = values.detach().clone(format);
    broadcast(values, mesh.group(), 0);
  }
  return global::differentiable_distribute(values, mesh, placements)
      .requires_grad_(full_tensor.is_leaf() && full_tensor.requires_grad());
}

at::Tensor redistribute(const at::Tensor& tensor, const Placements& placements) {
  checked_state(tensor, "redistribute");
  check_placements(placements, tensor.dim(), mesh_of(tensor), "redistribute");
  return global::differentiable_redistribute(tensor, placements);
}

at::Tensor to_local(const at::Tensor& tensor, const std::optional<Placements>& gradient) {
  checked_state(tensor, "to_local");
  if (gradient) check_placements(*gradient, tensor.dim(), mesh_of(tensor), "to_local");
  return global::differentiable_to_local(tensor,
                                         gradient.value_or(global::placements_of_gradient(placements_of(tensor))));
}

at::Tensor full(const at::Tensor& tensor) {
  const auto& state = checked_state(tensor, "full");
  return to_local(redistribute(tensor, state.mesh->replicated()->placements)).resolve_conj().resolve_neg();
}

MeshScope::MeshScope(const Mesh& mesh) : before_(global::exchange_scoped_mesh(mesh.state())) {}
MeshScope::~MeshScope() { global::exchange_scoped_mesh(std::move(before_)); }

void set_strict_global_ops(bool strict) { global::set_strict(strict); }

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
