// The state of gradients in buckets: the place of each parameter's gradient on this rank, and the memory and
// collectives of the buckets of a data-parallel wrapper. Does not use autograd.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/mirrored/parameter_layout.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::mirrored {

/// One parameter's `.grad()` on this rank, and its state in a round. No communication. In the functions below, `place`
/// is the parameter's place in its bucket, where `.grad()` is from the first round on, unless the program replaced or
/// removed it.
struct GradientSlot {
  std::string name;
  at::Tensor parameter;
  std::string form;          ///< dtype and sizes of the parameter when the reducer was made
  bool used = false;         ///< got a gradient since the last round, in this round or without synchronization
  bool arrived = false;      ///< autograd has processed the parameter in this round
  bool settled = false;      ///< its place has the value that this rank sends
  bool contributes = false;  ///< the value that is sent contains a gradient
  bool reduced = false;      ///< `.grad()` is the reduced result, and nothing was added to it since
  at::Tensor kept;           ///< copy of `.grad()`, restored if no rank has a gradient
};

/// Resets the state of the last round.
void start_round(GradientSlot& slot);

/// To be called before a gradient is added to `.grad()`, if gradients are summed over ranks: an old sum G must enter
/// the next sum once, not once for each rank, so each rank keeps G / ranks. (Not necessary for a mean: the mean of
/// equal G is G.)
void share_old_sum(GradientSlot& slot, int ranks);

/// Writes the value that this rank sends to `place`, and makes `.grad()` refer to it if there is a gradient to send. An
/// old result is divided by `shares`: the number of ranks if gradients are summed, else 1. A sparse gradient becomes a
/// dense one.
void settle(GradientSlot& slot, const at::Tensor& place, int shares);

/// To be called after `place` was reduced: makes `.grad()` refer to `place`, or restores its old value if no rank had a
/// gradient.
void take_result(GradientSlot& slot, const at::Tensor& place, bool used_on_any_rank);

/// Moves `.grad()` to separate memory, because `place` will be overwritten.
void leave_place(GradientSlot& slot, const at::Tensor& place) noexcept;

/// One arena for each dtype, allocated once from the group (under shm it is shared memory, which is reduced without a
/// copy) or on the parameters' device, and divided into buckets when the order of the gradients is known.
///
/// The tail of a bucket is reduced with it:
///   gave up   1 when this rank had an exception in the round, and sends the bucket only so that no rank waits for it
///   replaced  1 when the memory of a parameter was replaced on this rank since the last round
///   votes     for each subject 1 when this rank votes for it (DataParallel::vote)
///   owner     the bits of a number that is unique for each reducer of the group
///   used i    1 when member i got a gradient on this rank, else 0. The sum is 0 when it got a gradient on no rank.
class GradientBuckets {
 public:
  /// A collective. `owner` is the same on all ranks.
  GradientBuckets(const std::vector<at::Tensor>& parameters, const BucketLimits& limits, ReduceOp op,
                  const Group& group, std::uint8_t owner);

  bool laid_out() const { return !buckets_.empty(); }
  /// `order` as for plan_buckets, the same on all ranks. Not a collective.
  void lay_out(const std::vector<GradientSlot>& slots, const std::vector<std::size_t>& order);

  struct Place {
    at::Tensor view;  ///< shaped like the parameter, with its strides where it is dense
    std::size_t bucket = 0;
  };
  const Place& place(std::size_t parameter) const { return places_[parameter]; }

  std::size_t count() const { return buckets_.size(); }
  const std::vector<BucketPlan::BucketMember>& members(std::size_t bucket) const {
    return buckets_[bucket].plan.members;
  }

  struct Marks {
    bool gave_up = false;
    bool replaced = false;
    std::array<bool, kVotes> votes{};
  };
  /// Starts the reduction of a bucket. `unused` are the positions of the members without a gradient on this rank.
  void launch(std::size_t bucket, const std::vector<std::size_t>& unused, const Marks& marks);
  bool test(std::size_t bucket) { return buckets_[bucket].work.test(); }
  /// Error(mismatch) when ranks have sent a bucket of another reducer. On a device blocks until the bucket is reduced,
  /// as its tail is read.
  void wait(std::size_t bucket);

  /// After `wait`: whether any rank had a gradient for the member at this position.
  bool used_on_any_rank(std::size_t bucket, std::size_t position) const;
  /// After `wait`: how many ranks gave up before they launched this bucket.
  int ranks_that_gave_up(std::size_t bucket) const;
  /// After `wait`: on how many ranks the memory of parameters was replaced.
  int ranks_that_replaced(std::size_t bucket) const;
  /// After `wait`: how many ranks voted for this subject.
  int votes(std::size_t bucket, int subject) const;

 private:
  struct Bucket {
    BucketPlan plan;
    at::Tensor flat;       ///< [plan.elements]
    at::Tensor flat_tail;  ///< [kMarks + members], in flat
    at::Tensor tail;       ///< the same on the CPU: itself, or a copy
    at::Tensor marks;      ///< [kMarks], in tail
    at::Tensor used;       ///< [members], in tail
    Work work;
    std::uint32_t place = 0;  ///< its reduction on the status page
  };
  at::Tensor& arena(int dtype);
  int ranks_with(std::size_t bucket, std::int64_t mark) const;

  Group group_;
  ReduceOp op_;
  std::uint8_t owner_;
  BucketLimits limits_;
  std::vector<GradientSize> sizes_;
  std::vector<at::Tensor> arenas_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;  ///< by parameter
};

}  // namespace lockstep::mirrored
