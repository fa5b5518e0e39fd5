#include <lockstep/base/error.h>
#include <lockstep/mirrored/gradient_buckets.h>

#include <c10/util/strides.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::mirrored {
namespace {

/// A tensor of its own over a part of `flat`. Not a view in autograd's eyes, because optimizers detach gradients in
/// place, which views refuse.
at::Tensor tensor_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like) {
  at::Tensor tensor = at::empty({0}, flat.options());
  if (like.is_non_overlapping_and_dense()) {
    // The layout that autograd wants for gradients: the parameter's own.
    return tensor.set_(flat.storage(), flat.storage_offset() + offset, like.sizes(), like.strides());
  }
  return tensor.set_(flat.storage(), flat.storage_offset() + offset, like.sizes(),
                     c10::contiguous_strides(like.sizes()));
}

}  // namespace

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
    bucket.flat.zero_();  // the padding is reduced too; it stays zero
    bucket.skew = bucket.flat.narrow(0, plan.tail, 1);
    bucket.used = bucket.flat.narrow(0, plan.tail + 1, static_cast<std::int64_t>(plan.members.size()));
    for (const auto& member : plan.members) {
      places_[member.parameter] = {tensor_in(bucket.flat, member.offset, parameters[member.parameter]),
                                   buckets_.size()};
    }
    bucket.plan = std::move(plan);
    buckets_.push_back(std::move(bucket));
  }
}

void GradientBuckets::launch(std::size_t index, const std::vector<std::size_t>& unused, int skew) {
  Bucket& bucket = buckets_[index];
  bucket.skew.fill_(skew);
  bucket.used.fill_(1);
  for (const std::size_t position : unused) bucket.used[static_cast<std::int64_t>(position)].zero_();
  bucket.launched_skew = skew;
  bucket.work = all_reduce_async(bucket.flat, group_, op_);
}

void GradientBuckets::wait(std::size_t index) {
  Bucket& bucket = buckets_[index];
  bucket.work.wait();
  const double expected =
      op_ == ReduceOp::mean ? bucket.launched_skew : static_cast<double>(bucket.launched_skew) * group_.size();
  const auto skew = bucket.skew.item<double>();
  // Low-precision buckets round large sums; the normal case, zero, is exact.
  if (std::abs(skew - expected) <= 0.01 * expected) return;
  fail(ErrorKind::mismatch, "data_parallel",
       "ranks are not in the same backward: {} on this rank ended in an exception and were given up, another number on "
       "other ranks; after an exception all ranks must skip the same step, or the job must end",
       bucket.launched_skew);
}

bool GradientBuckets::used_on_any_rank(std::size_t index, std::size_t position) const {
  return buckets_[index].used[static_cast<std::int64_t>(position)].item<double>() > 0;
}

}  // namespace lockstep::mirrored
