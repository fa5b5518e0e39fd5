#include <lockstep/mirrored/flat_memory.h>
#include <lockstep/mirrored/gradient_buckets.h>
#include <lockstep/mirrored/small_tensors.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::mirrored {

GradientBuckets::GradientBuckets(const std::vector<at::Tensor>& parameters, const BucketLimits& limits, ReduceOp op,
                                 const Group& group)
    : group_(group), op_(op), limits_(limits) {
  for (const auto& parameter : parameters) {
    sizes_.push_back({parameter.numel(), static_cast<std::int64_t>(parameter.element_size()),
                      static_cast<int>(parameter.scalar_type())});
  }
  for (const auto& size : arena_sizes(sizes_, limits_)) arenas_.push_back(allocate(group_, size.elements, size.dtype));
}

at::Tensor& GradientBuckets::arena(int dtype) {
  return *std::find_if(arenas_.begin(), arenas_.end(),
                       [&](const at::Tensor& each) { return static_cast<int>(each.scalar_type()) == dtype; });
}

void GradientBuckets::lay_out(const std::vector<at::Tensor>& parameters, const std::vector<std::size_t>& order) {
  torch::NoGradGuard no_grad;
  places_.resize(parameters.size());
  for (auto& plan : plan_buckets(sizes_, order, limits_)) {
    Bucket bucket;
    bucket.flat = arena(plan.dtype).narrow(0, plan.begin, plan.elements);
    bucket.flat.zero_();  // the padding is reduced, too; it stays zero
    bucket.gave_up = bucket.flat.narrow(0, plan.tail, 1);
    bucket.stop_votes = bucket.flat.narrow(0, plan.tail + 1, 1);
    bucket.used = bucket.flat.narrow(0, plan.tail + 2, static_cast<std::int64_t>(plan.members.size()));
    for (const auto& member : plan.members) {
      places_[member.parameter] = {tensor_in(bucket.flat, member.offset, parameters[member.parameter]),
                                   buckets_.size()};
    }
    bucket.plan = std::move(plan);
    buckets_.push_back(std::move(bucket));
  }
}

void GradientBuckets::launch(std::size_t index, const std::vector<std::size_t>& unused, const Marks& marks) {
  Bucket& bucket = buckets_[index];
  set_all(bucket.gave_up, marks.gave_up ? 1 : 0);
  set_all(bucket.stop_votes, marks.stop ? 1 : 0);
  set_all(bucket.used, 1);
  for (const std::size_t position : unused) set_value(bucket.used, static_cast<std::int64_t>(position), 0);
  // Sizes and dtypes were compared with the module. The first bucket of each round compares arguments, to detect ranks
  // that are not in a backward: ranks with different numbers of batches are a common mistake.
  bucket.work = all_reduce_async(bucket.flat, index == 0 ? group_ : group_.unchecked(), op_);
}

bool GradientBuckets::used_on_any_rank(std::size_t index, std::size_t position) const {
  return value_at(buckets_[index].used, static_cast<std::int64_t>(position)) > 0;
}

int GradientBuckets::ranks_with(const at::Tensor& mark) const {
  const double reduced = value_at(mark, 0);
  return static_cast<int>(std::lround(op_ == ReduceOp::mean ? reduced * group_.size() : reduced));
}

}  // namespace lockstep::mirrored
