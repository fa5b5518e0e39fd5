// The memory in which gradients are reduced, and the collectives over it. Knows nothing of autograd.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/work.h>
#include <lockstep/mirrored/bucket_plan.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace lockstep::mirrored {

/// One arena for each dtype, allocated once from the group (shared memory under shm, so nothing is copied to be
/// reduced), divided into buckets when the order of the gradients is known.
///
/// The tail of a bucket is reduced with it:
///   skew    how many backwards this rank has abandoned because of an exception. Normally 0 on all ranks, so any other
///           sum shows that ranks which went on after an exception would mix gradients of different steps.
///   used i  1 when member i got a gradient on this rank, else 0. The sum is 0 when it got one nowhere.
class GradientBuckets {
 public:
  /// A collective.
  GradientBuckets(const std::vector<at::Tensor>& parameters, const BucketLimits& limits, ReduceOp op,
                  const Group& group);

  bool laid_out() const { return !buckets_.empty(); }
  /// `order` as for plan_buckets, the same on all ranks. Not a collective.
  void lay_out(const std::vector<at::Tensor>& parameters, const std::vector<std::size_t>& order);

  struct Place {
    at::Tensor view;  ///< shaped like the parameter, with its strides where it is dense
    std::size_t bucket = 0;
  };
  const Place& place(std::size_t parameter) const { return places_[parameter]; }

  std::size_t count() const { return buckets_.size(); }
  const std::vector<BucketPlan::Member>& members(std::size_t bucket) const { return buckets_[bucket].plan.members; }

  /// Starts to reduce a bucket. `unused` are the positions among its members of those without a gradient here.
  void launch(std::size_t bucket, const std::vector<std::size_t>& unused, int skew);
  bool test(std::size_t bucket) { return buckets_[bucket].work.test(); }
  /// Until the bucket is reduced; Error(mismatch) when the ranks' skews differ.
  void wait(std::size_t bucket);
  /// After `wait`: whether any rank had a gradient for the member at this position.
  bool used_on_any_rank(std::size_t bucket, std::size_t position) const;

 private:
  struct Bucket {
    BucketPlan plan;
    at::Tensor flat;  ///< [plan.elements]
    at::Tensor skew;  ///< [1], in flat
    at::Tensor used;  ///< [members], in flat
    int launched_skew = 0;
    Work work;
  };
  at::Tensor& arena(int dtype);

  Group group_;
  ReduceOp op_;
  BucketLimits limits_;
  std::vector<GradientSize> sizes_;
  std::vector<at::Tensor> arenas_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;  ///< by parameter
};

}  // namespace lockstep::mirrored
