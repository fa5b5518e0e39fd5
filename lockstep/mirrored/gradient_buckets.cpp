// Buckets in flat memory with a tail of marks (used, gave up, votes, owner) that is reduced with the gradients.
#include <lockstep/mirrored/gradient_buckets.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/observe.h>
#include <lockstep/comm/operator_trace.h>
#include <lockstep/mirrored/flat_memory.h>
#include <lockstep/mirrored/sparse_gradient.h>

#include <ATen/Dispatch.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

namespace lockstep::mirrored {
namespace {

// Tensor operations without the overhead of a libtorch call (one or two microseconds each), for the small tensors of
// small networks.

constexpr std::size_t kSmallBytes = 64 << 10;

template <typename Use>
void with_elements(const at::Tensor& tensor, const Use& use) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "with_elements",
                                  [&] { use(tensor.data_ptr<scalar_t>()); });
}

/// `to.copy_(from)`; small dense tensors with equal layouts are copied with memcpy.
void copy_into(const at::Tensor& to, const at::Tensor& from) {
  const bool bytewise = to.nbytes() <= kSmallBytes && to.is_cpu() && from.is_cpu() &&
                        to.scalar_type() == from.scalar_type() && to.strides() == from.strides() &&
                        to.sizes() == from.sizes() && to.is_non_overlapping_and_dense() && !from.is_conj() &&
                        !from.is_neg();
  if (!bytewise) {
    to.copy_(from);
  } else if (to.nbytes() > 0) {
    std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
  }
}

/// Sets all elements of a contiguous floating-point tensor on the CPU.
void set_all(const at::Tensor& tensor, double value) {
  with_elements(tensor, [&](auto* data) {
    using Element = std::remove_pointer_t<decltype(data)>;
    std::fill_n(data, tensor.numel(), static_cast<Element>(value));
  });
}

/// The element of such a tensor at `index`.
double value_at(const at::Tensor& tensor, std::int64_t index) {
  double value = 0;
  with_elements(tensor, [&](const auto* data) { value = static_cast<double>(data[index]); });
  return value;
}

void set_value(const at::Tensor& tensor, std::int64_t index, double value) {
  with_elements(tensor, [&](auto* data) { data[index] = static_cast<std::remove_pointer_t<decltype(data)>>(value); });
}

// The places of marks in a tail.
constexpr std::int64_t kGaveUp = 0;
constexpr std::int64_t kReplaced = 1;
constexpr std::int64_t kFirstVote = 2;
constexpr std::int64_t kFirstOwnerBit = kFirstVote + kVotes;

bool lies_in(const at::Tensor& place, const at::Tensor& gradient) {
  return gradient.is_same(place) || (gradient.layout() == at::kStrided && gradient.data_ptr() == place.data_ptr() &&
                                     gradient.sizes() == place.sizes() && gradient.strides() == place.strides());
}

}  // namespace

void start_round(GradientSlot& slot) {
  slot.arrived = slot.settled = slot.contributes = false;
  slot.kept.reset();
}

void share_old_sum(GradientSlot& slot, int ranks) {
  if (!std::exchange(slot.reduced, false)) return;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined()) return;
  torch::NoGradGuard no_grad;
  gradient.div_(ranks);
}

void settle(GradientSlot& slot, const at::Tensor& place, int shares) {
  torch::NoGradGuard no_grad;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  slot.settled = true;
  slot.contributes = slot.used && gradient.defined();
  if (!gradient.defined()) {
    place.zero_();
    return;
  }
  const bool in_place = lies_in(place, gradient);
  if (gradient.is_sparse()) {
    write_dense(gradient, place);
  } else if (!in_place) {
    copy_into(place, gradient);
  }
  if (slot.contributes) {
    if (!in_place) gradient = place;
    return;
  }
  // If no rank has a gradient, `.grad()` must keep its value although its place is reduced.
  if (in_place) slot.kept = gradient.clone();
  if (slot.reduced && shares != 1) place.div_(shares);
}

void take_result(GradientSlot& slot, const at::Tensor& place, bool used_on_any_rank) {
  if (slot.contributes || used_on_any_rank) {
    at::Tensor& gradient = slot.parameter.mutable_grad();
    if (!gradient.defined() || !lies_in(place, gradient)) gradient = place;
    slot.reduced = true;
  } else if (slot.kept.defined()) {
    torch::NoGradGuard no_grad;
    place.copy_(slot.kept);
  }
  slot.kept.reset();
  slot.used = false;
}

void leave_place(GradientSlot& slot, const at::Tensor& place) noexcept {
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined() || !lies_in(place, gradient)) return;
  try {
    torch::NoGradGuard no_grad;
    gradient = gradient.clone();
  } catch (const std::exception&) {
    gradient.reset();  // out of memory for the copy; the values are undefined anyway
  }
}

GradientBuckets::GradientBuckets(const std::vector<at::Tensor>& parameters, const BucketLimits& limits, ReduceOp op,
                                 const Group& group, std::uint8_t owner)
    : group_(group), op_(op), owner_(owner), limits_(limits) {
  for (const auto& parameter : parameters) {
    sizes_.push_back({parameter.numel(), static_cast<std::int64_t>(parameter.element_size()),
                      static_cast<int>(parameter.scalar_type())});
  }
  for (const auto& size : arena_sizes(sizes_, limits_)) {
    arenas_.push_back(group_memory(group_, size.elements, size.dtype, parameters.front()));
  }
}

at::Tensor& GradientBuckets::arena(int dtype) {
  return *std::find_if(arenas_.begin(), arenas_.end(),
                       [&](const at::Tensor& each) { return static_cast<int>(each.scalar_type()) == dtype; });
}

void GradientBuckets::lay_out(const std::vector<GradientSlot>& slots, const std::vector<std::size_t>& order) {
  torch::NoGradGuard no_grad;
  places_.resize(slots.size());
  for (auto& plan : plan_buckets(sizes_, order, limits_)) {
    Bucket bucket;
    bucket.flat = arena(plan.dtype).narrow(0, plan.begin, plan.elements);
    bucket.flat.zero_();  // the padding is reduced, too; it stays zero
    const auto members = static_cast<std::int64_t>(plan.members.size());
    bucket.flat_tail = bucket.flat.narrow(0, plan.tail, kMarks + members);
    // Pinned, so that the copy to the device does not block.
    const auto on_host = bucket.flat.options().device(at::kCPU).pinned_memory(true);
    bucket.tail = bucket.flat.is_cpu() ? bucket.flat_tail : at::empty({kMarks + members}, on_host);
    bucket.marks = bucket.tail.narrow(0, 0, kMarks);
    bucket.used = bucket.tail.narrow(0, kMarks, members);
    for (const auto& member : plan.members) {
      places_[member.parameter] = {tensor_in(bucket.flat, member.offset, slots[member.parameter].parameter),
                                   buckets_.size()};
    }
    const auto others = members == 1 ? "" : fmt::format(" and {} more", members - 1);
    bucket.place = name_place(group_, fmt::format("the gradient of {}{} (bucket {})",
                                                  slots[plan.members.front().parameter].name, others, buckets_.size()));
    bucket.plan = std::move(plan);
    buckets_.push_back(std::move(bucket));
  }
}

void GradientBuckets::launch(std::size_t index, const std::vector<std::size_t>& unused, const Marks& marks) {
  Bucket& bucket = buckets_[index];
  set_value(bucket.marks, kGaveUp, marks.gave_up ? 1 : 0);
  set_value(bucket.marks, kReplaced, marks.replaced ? 1 : 0);
  for (int i = 0; i < kVotes; ++i) {
    set_value(bucket.marks, kFirstVote + i, marks.votes.at(static_cast<std::size_t>(i)) ? 1 : 0);
  }
  for (int i = 0; i < kOwnerBits; ++i) set_value(bucket.marks, kFirstOwnerBit + i, owner_ >> i & 1);
  set_all(bucket.used, 1);
  for (const std::size_t position : unused) set_value(bucket.used, static_cast<std::int64_t>(position), 0);
  if (!bucket.flat.is_cpu()) bucket.flat_tail.copy_(bucket.tail, /*non_blocking=*/true);
  // Sizes and dtypes were compared with the module. The first bucket of each round compares arguments, to detect ranks
  // that are not in a backward: ranks with different numbers of batches are a common mistake.
  const CallPlace place(bucket.place);
  bucket.work = all_reduce_async(bucket.flat, index == 0 ? group_ : group_.unchecked(), op_);
}

void GradientBuckets::wait(std::size_t index) {
  Bucket& bucket = buckets_[index];
  if (bucket.flat.is_cpu()) {
    bucket.work.wait();
  } else {
    bucket.work.synchronize();
    bucket.tail.copy_(bucket.flat_tail);
  }
  // With a thousand ranks or more, the count is only approximate in low precision.
  const int about = group_.size() / 128;
  for (int i = 0; i < kOwnerBits; ++i) {
    const int expected = (owner_ >> i & 1) == 1 ? group_.size() : 0;
    if (std::abs(ranks_with(index, kFirstOwnerBit + i) - expected) <= about) continue;
    fail(ErrorKind::mismatch, "data_parallel",
         "the ranks reduced gradients of different DataParallel objects at the same time; run the models' forward "
         "passes in the same order on all ranks, as backward follows it");
  }
}

bool GradientBuckets::used_on_any_rank(std::size_t index, std::size_t position) const {
  return value_at(buckets_[index].used, static_cast<std::int64_t>(position)) > 0;
}

int GradientBuckets::ranks_that_gave_up(std::size_t bucket) const { return ranks_with(bucket, kGaveUp); }
int GradientBuckets::ranks_that_replaced(std::size_t bucket) const { return ranks_with(bucket, kReplaced); }
int GradientBuckets::votes(std::size_t bucket, int subject) const { return ranks_with(bucket, kFirstVote + subject); }

int GradientBuckets::ranks_with(std::size_t bucket, std::int64_t mark) const {
  const double reduced = value_at(buckets_[bucket].marks, mark);
  return static_cast<int>(std::lround(op_ == ReduceOp::mean ? reduced * group_.size() : reduced));
}

}  // namespace lockstep::mirrored
