// The gradient buckets of a data-parallel wrapper: their memory and their collectives. Does not use autograd.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/work.h>
#include <lockstep/mirrored/bucket_plan.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace lockstep::mirrored {

/// One arena for each dtype, allocated once from the group (under shm it is shared memory, which is reduced without a
/// copy), and divided into buckets when the order of the gradients is known.
///
/// The tail of a bucket is reduced with it:
///   gave up  1 when this rank had an exception in the round, and only sends the bucket so that no rank waits for it
///   stop_votes    1 when this rank votes to stop (DataParallel::vote_to_stop)
///   used i   1 when member i got a gradient on this rank, else 0. The sum is 0 when it got one nowhere.
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

  struct Marks {
    bool gave_up = false;
    bool stop = false;
  };
  /// Starts the reduction of a bucket. `unused` are the positions of the members without a gradient on this rank.
  void launch(std::size_t bucket, const std::vector<std::size_t>& unused, const Marks& marks);
  bool test(std::size_t bucket) { return buckets_[bucket].work.test(); }
  void wait(std::size_t bucket) { buckets_[bucket].work.wait(); }

  /// After `wait`: whether any rank had a gradient for the member at this position.
  bool used_on_any_rank(std::size_t bucket, std::size_t position) const;
  /// After `wait`: how many ranks gave up before they launched this bucket.
  int ranks_that_gave_up(std::size_t bucket) const { return ranks_with(buckets_[bucket].gave_up); }
  /// After `wait`: how many ranks voted to stop.
  int stop_votes(std::size_t bucket) const { return ranks_with(buckets_[bucket].stop_votes); }

 private:
  struct Bucket {
    BucketPlan plan;
    at::Tensor flat;        ///< [plan.elements]
    at::Tensor gave_up;     ///< [1], in flat
    at::Tensor stop_votes;  ///< [1], in flat
    at::Tensor used;        ///< [members], in flat
    Work work;
  };
  at::Tensor& arena(int dtype);
  int ranks_with(const at::Tensor& mark) const;

  Group group_;
  ReduceOp op_;
  BucketLimits limits_;
  std::vector<GradientSize> sizes_;
  std::vector<at::Tensor> arenas_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;  ///< by parameter
};

}  // namespace lockstep::mirrored
