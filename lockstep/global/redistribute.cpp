#include <lockstep/comm/collectives.h>
#include <lockstep/global/even_split.h>
#include <lockstep/global/redistribute.h>
#include <lockstep/global/transitions.h>

#include <ATen/ATen.h>

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

at::Tensor gather_shards(const Move& move, std::int64_t dim) {
  const auto largest = move.largest(dim);
  const auto sent = to_front(padded(move.local, dim, largest), dim);
  const auto gathered = all_gather(move.counted(&TrafficCount::all_gather, sent), move.group());
  if (largest * move.ranks() == move.rows(dim)) return gathered.movedim(0, dim).contiguous();
  std::vector<at::Tensor> parts;
  for (int i = 0; i < move.ranks(); ++i) parts.push_back(gathered.narrow(0, i * largest, move.part(dim, i).size));
  return at::cat(parts).movedim(0, dim).contiguous();
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

/// Makes a replicated value partial. For a sum, the first rank keeps the value and the others have zeros; for mean, max
/// and min all ranks keep it.
at::Tensor spread_as_partial(const Move& move, ReduceOp op) {
  if (op == ReduceOp::sum && move.rank() != 0) return at::zeros_like(move.local, at::MemoryFormat::Contiguous);
  return move.local;
}

at::Tensor make_step(const Move& move, const Placement& from, const Placement& to) {
  if (from.is_shard()) return to.is_shard() ? exchange_shards(move, from.dim, to.dim) : gather_shards(move, from.dim);
  if (from.is_partial()) return to.is_shard() ? reduce_to_shard(move, from.op, to.dim) : finish_partial(move, from.op);
  return to.is_shard() ? cut_shard(move, to.dim) : spread_as_partial(move, to.op);
}

}  // namespace

namespace {

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

at::Tensor part_of_full(const at::Tensor& full, MeshState& mesh, const Placements& placements) {
  const auto format = full.suggest_memory_format();
  return redistribute_local(full, full.sizes(), format, mesh, Placements(placements.size()), placements)
      .contiguous(format);
}

}  // namespace lockstep::global
