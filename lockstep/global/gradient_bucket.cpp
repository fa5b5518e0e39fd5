// A flat buffer of gradients for one all_reduce or reduce_scatter, whose results may stay in it as lent memory.
#include <lockstep/global/gradient_bucket.h>

#include <lockstep/comm/collectives.h>
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::global {
namespace {

/// Whether buckets of two kinds can use the same piece: the operation does not matter.
bool same_memory(const BucketKind& a, const BucketKind& b) {
  return a.mesh == b.mesh && a.axis == b.axis && a.dtype == b.dtype;
}

/// Copies lent values to new memory and redirects the storage to it, for all tensors that share the storage (a
/// gradient, detached tensors, views).
void take_back(const LentMemory& lent) {
  const auto& memory = lent.memory;
  if (memory.use_count() == 1) return;
  const auto bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(memory.device()));
  const at::Tensor copy = bytes.set_(memory).clone();
  memory.set_data_ptr(copy.storage().set_data_ptr(at::DataPtr()));
  if (const auto shown_by = lent.shown_by.lock()) show_memory(*shown_by);
}

}  // namespace

BucketPiece BucketMemory::take(const BucketKind& kind, std::shared_ptr<MeshState> mesh, std::int64_t elements) {
  auto piece = smallest_of(used_, kind, elements);
  if (!piece.memory.defined()) piece = smallest_of(kept_, kind, elements);
  for (const auto& lent : std::exchange(piece.lent, {})) take_back(lent);
  if (!piece.memory.defined()) {
    const auto device = kind.mesh->device();
    piece.memory = device.is_cpu() ? allocate(kind.mesh->group(kind.axis), elements, static_cast<int>(kind.dtype))
                                   : at::empty({elements}, at::TensorOptions(device).dtype(kind.dtype));
  }
  piece.kind = kind;
  piece.mesh = std::move(mesh);
  return piece;
}

/// Removes and returns the smallest piece that is large enough.
BucketPiece BucketMemory::smallest_of(std::vector<BucketPiece>& pieces, const BucketKind& kind, std::int64_t elements) {
  auto best = pieces.end();
  for (auto each = pieces.begin(); each != pieces.end(); ++each) {
    if (!same_memory(each->kind, kind) || each->memory.numel() < elements) continue;
    if (best == pieces.end() || each->memory.numel() < best->memory.numel()) best = each;
  }
  if (best == pieces.end()) return {};
  auto piece = std::move(*best);
  pieces.erase(best);
  return piece;
}

void BucketMemory::give_back(BucketPiece piece) { used_.push_back(std::move(piece)); }

void BucketMemory::give_back_at_end(BucketPiece piece) { at_end_.push_back(std::move(piece)); }

void BucketMemory::end_backward() {
  kept_ = std::exchange(used_, {});
  std::move(at_end_.begin(), at_end_.end(), std::back_inserter(kept_));
  at_end_.clear();
}

void BucketMemory::forget() {
  kept_.clear();
  used_.clear();
  at_end_.clear();
}

namespace {

/// Whether no axis but this one shards the goal's dimension, now and in the end.
bool alone_on_dim(const PendingGradient& gradient, std::size_t axis) {
  const auto& now = state_of(gradient.gradient).sharding->placements;
  for (std::size_t other = 0; other < now.size(); ++other) {
    const auto dim = gradient.goal[axis].dim;
    if (other != axis && (now[other].is_shard(dim) || gradient.goal[other].is_shard(dim))) return false;
  }
  return true;
}

/// Rows of the largest part of `gradient` along the dimension that its goal shards.
std::int64_t padded_rows(const PendingGradient& gradient, const BucketKind& kind) {
  return part_of(state_of(gradient.gradient).local.size(gradient.goal[kind.axis].dim), kind.mesh->sizes()[kind.axis], 0)
      .size;
}

/// The elements of a gradient for each rank, in a bucket for reduce_scatter.
std::int64_t elements_for_each(const PendingGradient& gradient, const BucketKind& kind) {
  const auto& local = state_of(gradient.gradient).local;
  const auto rows = local.size(gradient.goal[kind.axis].dim);
  return rows == 0 ? 0 : local.numel() / rows * padded_rows(gradient, kind);
}

/// Elements of the largest part over all ranks: that of the first rank.
std::int64_t largest_part(const at::Tensor& gradient) {
  const auto& state = state_of(gradient);
  const std::vector<int> first(state.mesh->sizes().size());
  return c10::multiply_integers(local_sizes(gradient.sizes(), state.sharding->placements, state.mesh->sizes(), first));
}

/// The same memory with a separate storage, so that its users can be counted separately.
at::Tensor with_own_storage(const at::Tensor& sum) {
  return at::from_blob(
      sum.data_ptr(), sum.sizes(), [sum](void*) {}, sum.options());
}

}  // namespace

bool fits_bucket(const PendingGradient& gradient, BucketKind& kind) {
  const auto& state = state_of(gradient.gradient);
  const auto& now = state.sharding->placements;
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (!now[axis].is_partial() || gradient.goal[axis].is_partial()) continue;
    const bool scatter = gradient.goal[axis].is_shard();
    if (scatter && !alone_on_dim(gradient, axis)) return false;
    kind = {.mesh = state.mesh.get(),
            .axis = axis,
            .op = now[axis].op,
            .dtype = state.local.scalar_type(),
            .scatter = scatter};
    return true;
  }
  return false;
}

void GradientBucket::add(PendingGradient gradient) {
  elements_ += kind_.scatter ? elements_for_each(gradient, kind_) * kind_.mesh->sizes()[kind_.axis]
                             : state_of(gradient.gradient).local.numel();
  most_elements_ += largest_part(gradient.gradient);
  gradients_.push_back(std::move(gradient));
}

void GradientBucket::start(BucketMemory& memory) {
  const auto& first = gradients_.front();
  const OperatorScope on_trace("reduce gradients, first", *kind_.mesh, first.gradient, first.goal);
  piece_ = memory.take(kind_, state_of(first.gradient).mesh, elements_);
  memory_ = piece_.memory.narrow(0, 0, elements_);
  auto& traffic = kind_.mesh->traffic();
  (kind_.scatter ? traffic.reduce_scatter : traffic.all_reduce).count(memory_.nbytes());
  kind_.scatter ? start_reduce_scatter() : start_all_reduce();
}

void GradientBucket::start_all_reduce() {
  std::int64_t begin = 0;
  for (const auto& each : gradients_) {
    const auto& local = state_of(each.gradient).local;
    memory_.narrow(0, begin, local.numel()).view(local.sizes()).copy_(local);
    begin += local.numel();
  }
  result_ = memory_;
  work_ = all_reduce_async(memory_, kind_.mesh->group(kind_.axis), kind_.op);
}

void GradientBucket::start_reduce_scatter() {
  const int ranks = kind_.mesh->sizes()[kind_.axis];
  const auto by_rank = memory_.zero_().view({ranks, elements_ / ranks});
  std::int64_t begin = 0;
  for (const auto& each : gradients_) {
    const auto local = state_of(each.gradient).local.movedim(each.goal[kind_.axis].dim, 0);
    const auto elements = elements_for_each(each, kind_);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto part = part_of(local.size(0), ranks, rank);
      const auto rows = local.narrow(0, part.begin, part.size);
      by_rank[rank].narrow(0, begin, rows.numel()).view(rows.sizes()).copy_(rows);
    }
    begin += elements;
  }
  result_ = at::empty({elements_ / ranks}, memory_.options());
  work_ = reduce_scatter_async(result_, memory_, kind_.mesh->group(kind_.axis), kind_.op);
}

Placements GradientBucket::placements_after(const PendingGradient& gradient) const {
  Placements placements = state_of(gradient.gradient).sharding->placements;
  placements[kind_.axis] = gradient.goal[kind_.axis];
  return placements;
}

void GradientBucket::take_sums(bool stay) {
  std::int64_t begin = 0;
  for (const auto& each : gradients_) {
    const auto& local = state_of(each.gradient).local;
    const auto sum = result_.narrow(0, begin, local.numel()).view(local.sizes());
    begin += sum.numel();
    if (stay && each.may_stay) {
      set_part(each.gradient, with_own_storage(sum));
      piece_.lent.push_back({.memory = local.storage(), .shown_by = each.gradient.storage().getWeakStorageImpl()});
      continue;
    }
    // Other tensors may share the memory, and backward may still need them: the gradient of a view, for example.
    if (local.storage().use_count() > 1) set_part(each.gradient, at::empty_like(local));
    local.copy_(sum);
  }
}

void GradientBucket::take_parts() {
  std::int64_t begin = 0;
  for (const auto& each : gradients_) {
    const auto& local = state_of(each.gradient).local;
    const auto dim = each.goal[kind_.axis].dim;
    const auto mine = part_of(local.size(dim), kind_.mesh->sizes()[kind_.axis], kind_.mesh->coordinate()[kind_.axis]);
    const auto elements = elements_for_each(each, kind_);
    auto sizes = local.movedim(dim, 0).sizes().vec();
    const auto rows = local.size(dim) == 0 ? 0 : local.numel() / local.size(dim) * mine.size;
    sizes[0] = mine.size;
    set_part(each.gradient, result_.narrow(0, begin, rows).view(sizes).movedim(0, dim).contiguous());
    begin += elements;
  }
}

std::vector<PendingGradient> GradientBucket::finish(BucketMemory& memory, bool last) {
  {
    const OperatorTraceScope on_trace(kind_.mesh->trace());  // for the error's text
    work_.wait();
  }
  const bool stay = last && !kind_.scatter && std::all_of(gradients_.begin(), gradients_.end(), [&](const auto& each) {
                      return placements_after(each) == each.goal;
                    });
  kind_.scatter ? take_parts() : take_sums(stay);
  for (const auto& each : gradients_) state_of(each.gradient).sharding = kind_.mesh->intern(placements_after(each));
  memory_.reset();
  result_.reset();
  elements_ = 0;
  most_elements_ = 0;
  auto piece = std::exchange(piece_, {});
  stay ? memory.give_back_at_end(std::move(piece)) : memory.give_back(std::move(piece));
  return std::exchange(gradients_, {});
}

}  // namespace lockstep::global
