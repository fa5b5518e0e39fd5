// Redistribution in steps of one collective each, with uneven shards padded to the largest, and autograd functions.
#include <lockstep/global/redistribute.h>

#include <lockstep/comm/collectives.h>
#include <lockstep/global/dispatch/fetched_view.h>
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::global {
namespace {

/// One step of a redistribution. `rows(dim)` is the size of a dimension on this rank if `axis` did not shard it.
struct Move {
  const at::Tensor& local;
  MeshState& mesh;
  std::size_t axis;
  Placements others;  ///< with Replicate() at `axis`
  c10::IntArrayRef sizes;

  int ranks() const { return mesh.sizes()[axis]; }
  int rank() const { return mesh.coordinate()[axis]; }
  const Group& group() const { return mesh.group(axis); }
  std::int64_t rows(std::int64_t dim) const {
    return part_of(sizes[static_cast<std::size_t>(dim)], dim, others, mesh.sizes(), mesh.coordinate()).size;
  }
  Part part(std::int64_t dim, int index) const { return part_of(rows(dim), ranks(), index); }
  /// Rows of the largest part.
  std::int64_t largest(std::int64_t dim) const { return part(dim, 0).size; }
  /// Counts the traffic of `sent` and returns it.
  const at::Tensor& counted(Traffic TrafficCount::*kind, const at::Tensor& sent) const {
    (mesh.traffic().*kind).count(sent.nbytes());
    return sent;
  }
};

at::Tensor padded(const at::Tensor& tensor, std::int64_t dim, std::int64_t rows) {
  if (tensor.size(dim) == rows) return tensor;
  auto sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = rows;
  auto larger = at::zeros(sizes, tensor.options());
  larger.narrow(dim, 0, tensor.size(dim)).copy_(tensor);
  return larger;
}

/// Moves `dim` to the front, because collectives divide dimension 0.
at::Tensor to_front(const at::Tensor& tensor, std::int64_t dim) { return tensor.movedim(dim, 0).contiguous(); }

/// The whole dimension, from the concatenated parts of the ranks.
at::Tensor joined_rows(const at::Tensor& gathered, std::int64_t dim, std::int64_t largest,
                       const std::vector<std::int64_t>& rows) {
  const bool even = std::all_of(rows.begin(), rows.end(), [&](std::int64_t each) { return each == largest; });
  if (even) return gathered.movedim(0, dim).contiguous();
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    parts.push_back(gathered.narrow(0, static_cast<std::int64_t>(i) * largest, rows[i]));
  }
  return at::cat(parts).movedim(0, dim).contiguous();
}

std::vector<std::int64_t> rows_of_parts(const Move& move, std::int64_t dim) {
  std::vector<std::int64_t> rows;
  for (int i = 0; i < move.ranks(); ++i) rows.push_back(move.part(dim, i).size);
  return rows;
}

at::Tensor gather_shards(const Move& move, std::int64_t dim) {
  const auto largest = move.largest(dim);
  const auto sent = to_front(padded(move.local, dim, largest), dim);
  const auto gathered = all_gather(move.counted(&TrafficCount::all_gather, sent), move.group());
  return joined_rows(gathered, dim, largest, rows_of_parts(move, dim));
}

at::Tensor cut_shard(const Move& move, std::int64_t dim) {
  const auto part = move.part(dim, move.rank());
  return move.local.narrow(dim, part.begin, part.size).clone(at::MemoryFormat::Contiguous);
}

at::Tensor finish_partial(const Move& move, ReduceOp op) {
  auto sum = move.local.clone(at::MemoryFormat::Contiguous);
  move.counted(&TrafficCount::all_reduce, sum);
  all_reduce(sum, move.group(), op);
  return sum;
}

/// The parts of `tensor` along `dim` for all ranks, each padded to the size of the largest, concatenated along
/// dimension 0.
at::Tensor parts_in_a_row(const Move& move, const at::Tensor& tensor, std::int64_t dim) {
  const auto largest = move.largest(dim);
  if (largest * move.ranks() == move.rows(dim)) return to_front(tensor, dim);
  std::vector<at::Tensor> parts;
  for (int i = 0; i < move.ranks(); ++i) {
    const auto part = move.part(dim, i);
    parts.push_back(padded(tensor.narrow(dim, part.begin, part.size), dim, largest).movedim(dim, 0));
  }
  return at::cat(parts).contiguous();
}

at::Tensor reduce_to_shard(const Move& move, ReduceOp op, std::int64_t dim) {
  const auto sent = parts_in_a_row(move, move.local, dim);
  const auto mine = reduce_scatter(move.counted(&TrafficCount::reduce_scatter, sent), move.group(), op);
  return mine.narrow(0, 0, move.part(dim, move.rank()).size).movedim(0, dim).contiguous();
}

at::Tensor exchange_shards(const Move& move, std::int64_t from, std::int64_t to) {
  const auto rows = move.largest(to);
  const auto sent = parts_in_a_row(move, padded(move.local, from, move.largest(from)), to);
  const auto received = all_to_all(move.counted(&TrafficCount::all_to_all, sent), move.group());
  std::vector<at::Tensor> parts;
  for (int i = 0; i < move.ranks(); ++i) {
    const auto whole = received.narrow(0, i * rows, move.part(to, move.rank()).size).movedim(0, to);
    parts.push_back(whole.narrow(from, 0, move.part(from, i).size));
  }
  return at::cat(parts, from).contiguous();
}

/// Makes a replicated value partial. For a sum, the first rank keeps the value and the other ranks have zeros; for
/// mean, max and min all ranks keep it.
at::Tensor spread_as_partial(const Move& move, ReduceOp op) {
  if (op == ReduceOp::sum && move.rank() != 0) return at::zeros_like(move.local, at::MemoryFormat::Contiguous);
  return move.local;
}

at::Tensor make_step(const Move& move, const Placement& from, const Placement& to) {
  if (from.is_shard()) return to.is_shard() ? exchange_shards(move, from.dim, to.dim) : gather_shards(move, from.dim);
  if (from.is_partial()) return to.is_shard() ? reduce_to_shard(move, from.op, to.dim) : finish_partial(move, from.op);
  return to.is_shard() ? cut_shard(move, to.dim) : spread_as_partial(move, to.op);
}

/// Whether the value is a partial maximum or minimum, which negation does not preserve.
bool is_extreme(const Placements& placements) {
  return std::any_of(placements.begin(), placements.end(), [](const Placement& each) {
    return each.is_partial(ReduceOp::max) || each.is_partial(ReduceOp::min);
  });
}

}  // namespace

at::Tensor redistribute_local(const at::Tensor& local, c10::IntArrayRef sizes, c10::MemoryFormat format,
                              MeshState& mesh, const Placements& from, const Placements& to) {
  if (from == to) return local;
  // The values are sent as they are in memory; the lazy conjugate bit is set again afterwards.
  if (local.is_conj()) return redistribute_local(local.conj(), sizes, format, mesh, from, to).conj();
  if (local.is_neg() && is_extreme(from)) {
    return redistribute_local(local.resolve_neg(), sizes, format, mesh, from, to).neg()._neg_view();
  }
  if (local.is_neg()) return redistribute_local(local._neg_view(), sizes, format, mesh, from, to)._neg_view();
  at::Tensor now = local;
  Placements placements = from;
  for (const auto& step : transitions(from, to)) {
    if (mesh.sizes()[step.axis] > 1) {
      Placements others = placements;
      others[step.axis] = Replicate();
      now = make_step({.local = now, .mesh = mesh, .axis = step.axis, .others = std::move(others), .sizes = sizes},
                      step.from, step.to);
    }
    placements[step.axis] = step.to;
  }
  // Preserves channels_last: kernels are slow when memory formats are mixed.
  return now.is_same(local) || format == at::MemoryFormat::Contiguous ? now : now.contiguous(format);
}

bool is_one_gather(const Placements& from, const Placements& to, std::span<const int> mesh_sizes) {
  const auto steps = transitions(from, to);
  return steps.size() == 1 && steps[0].from.is_shard() && steps[0].to.is_replicate() && mesh_sizes[steps[0].axis] > 1;
}

BegunGather begin_gather(const at::Tensor& local, c10::IntArrayRef sizes, c10::MemoryFormat format, MeshState& mesh,
                         const Placements& from, const Placements& to) {
  const auto step = transitions(from, to).front();
  Placements others = from;
  others[step.axis] = Replicate();
  const Move move{.local = local, .mesh = mesh, .axis = step.axis, .others = std::move(others), .sizes = sizes};
  const auto dim = step.from.dim;
  BegunGather begun{.work = {},
                    .gathered = {},
                    .dim = dim,
                    .rows = rows_of_parts(move, dim),
                    .largest = move.largest(dim),
                    .format = format};
  const auto sent = to_front(padded(local, dim, begun.largest), dim);
  auto all_sizes = sent.sizes().vec();
  all_sizes[0] *= move.ranks();
  begun.gathered = at::empty(all_sizes, sent.options());
  begun.work = all_gather_async(begun.gathered, move.counted(&TrafficCount::all_gather, sent), move.group());
  return begun;
}

at::Tensor finish_gather(BegunGather gather) {
  gather.work.wait();
  const auto whole = joined_rows(gather.gathered, gather.dim, gather.largest, gather.rows);
  return gather.format == at::MemoryFormat::Contiguous ? whole : whole.contiguous(gather.format);
}

at::Tensor part_of_full(const at::Tensor& full, MeshState& mesh, const Placements& placements) {
  const auto format = full.suggest_memory_format();
  return redistribute_local(full, full.sizes(), format, mesh, Placements(placements.size()), placements)
      .contiguous(format);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// The state for backward. A custom class, because autograd's context stores only supported types.
struct Way : torch::CustomClassHolder {
  Way(Mesh on, Placements back_to, Whole of_whole)
      : mesh(std::move(on)), back(std::move(back_to)), whole(std::move(of_whole)) {}
  Mesh mesh;
  Placements back;
  Whole whole;
};

void keep(AutogradContext* context, Mesh mesh, Placements back, Whole whole) {
  context->saved_data["way"] =
      c10::IValue::make_capsule(c10::make_intrusive<Way>(std::move(mesh), std::move(back), std::move(whole)));
}

Whole as_whole(const at::Tensor& tensor) {
  return {.sizes = tensor.sizes().vec(), .format = tensor.suggest_memory_format()};
}

const Way& kept(AutogradContext* context) { return static_cast<const Way&>(*context->saved_data["way"].toCapsule()); }

at::Tensor wrap(const at::Tensor& local, const Mesh& mesh, const Placements& placements, const Whole& whole) {
  return make_global(
      {.mesh = mesh.state(), .sharding = mesh.state()->intern(placements), .local = local},
      {.sizes = whole.sizes, .strides = strides_in(whole.format, whole.sizes), .dtype = local.scalar_type()});
}

at::Tensor lie(const at::Tensor& tensor, const Placements& placements) {
  current_part(tensor);
  const auto& state = state_of(tensor);
  const OperatorScope on_trace(tensor, placements);
  return on_trace.run(*state.mesh, [&] {
    return redistribute_local(state.local, tensor.sizes(), tensor.suggest_memory_format(), *state.mesh,
                              state.sharding->placements, placements);
  });
}

/// In backward the conversion is reversed: the gradient of the global tensor is converted to this rank's part.
struct ToGlobal : Function<ToGlobal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local, const Mesh& mesh,
                            const Placements& placements, Whole whole) {
    auto result = wrap(local.detach(), mesh, placements, whole);
    keep(context, mesh, placements_of_gradient(placements), std::move(whole));
    return result;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0].defined() ? lie(gradients[0], kept(context).back) : at::Tensor(), {}, {}, {}};
  }
};

struct Distribute : Function<Distribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& full, const Mesh& mesh,
                            const Placements& placements) {
    auto part = part_of_full(full.detach(), *mesh.state(), placements);
    if (part.is_alias_of(full)) part = part.clone();
    keep(context, mesh, mesh.state()->replicated()->placements, as_whole(full));
    return wrap(part, mesh, placements, as_whole(full));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0].defined() ? lie(gradients[0], kept(context).back) : at::Tensor(), {}, {}};
  }
};

struct Redistribute : Function<Redistribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const Placements& placements) {
    const auto& state = state_of(tensor);
    auto part = lie(tensor, placements);
    if (part.is_same(state.local)) part = part.clone();
    keep(context, Mesh(state.mesh), placements_of_gradient(state.sharding->placements), as_whole(tensor));
    return wrap(part, Mesh(state.mesh), placements, as_whole(tensor));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Way& way = kept(context);
    return {gradients[0].defined() ? wrap(lie(gradients[0], way.back), way.mesh, way.back, way.whole) : at::Tensor(),
            {}};
  }
};

struct ToLocal : Function<ToLocal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const Placements& gradient) {
    const auto& state = state_of(tensor);
    keep(context, Mesh(state.mesh), gradient, as_whole(tensor));
    return current_part(tensor).detach();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Way& way = kept(context);
    return {gradients[0].defined() ? wrap(gradients[0], way.mesh, way.back, way.whole) : at::Tensor(), {}};
  }
};

}  // namespace

Placements placements_of_gradient(const Placements& placements) {
  Placements gradient = placements;
  for (auto& each : gradient) {
    if (each.is_partial()) each = Replicate();
  }
  return gradient;
}

at::Tensor differentiable_to_global(const at::Tensor& local, const Mesh& mesh, const Placements& placements,
                                    Whole whole) {
  return ToGlobal::apply(local, mesh, placements, std::move(whole));
}

at::Tensor differentiable_distribute(const at::Tensor& full, const Mesh& mesh, const Placements& placements) {
  return Distribute::apply(full, mesh, placements);
}

at::Tensor differentiable_redistribute(const at::Tensor& tensor, const Placements& placements) {
  return Redistribute::apply(tensor, placements);
}

at::Tensor differentiable_to_local(const at::Tensor& tensor, const Placements& gradient) {
  return ToLocal::apply(tensor, gradient);
}

}  // namespace lockstep::global
