// The course of one synchronized backward, called a round.
//
// A round opens with the first gradient of a backward and ends in a callback that autograd runs at the end of it. As
// gradients arrive they are moved into their buckets, where `.grad()` then stays, and buckets are reduced in a fixed
// order as soon as they and those before them are complete; each later arrival drives the reductions under way. At the
// end, parameters without a gradient count as zeros, so every rank sends every bucket in every round and no rank needs
// to know what the others' graphs look like.
//
// The first round only watches: the order in which rank 0's gradients arrived decides the buckets, so they are laid
// out once, no gradient is ever held twice, and nothing is moved later.
#pragma once

#include <lockstep/mirrored/autograd_hooks.h>
#include <lockstep/mirrored/coalesced_broadcast.h>
#include <lockstep/mirrored/gradient_buckets.h>
#include <lockstep/mirrored/replica.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::mirrored {

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Allocates and hooks `parameters`, which all require gradients; a collective. `buffers`, if any, follow rank 0's at
  /// the end of each round and outlive the reducer. Lives in a shared_ptr, which a running backward refers to weakly.
  Reducer(std::vector<NamedTensor> parameters, const BucketLimits& limits, bool mean, const Group& group,
          CoalescedBroadcast* buffers);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  bool synchronizes() const { return synchronize_; }
  /// While false, gradients accumulate on this rank and no round opens.
  void set_synchronizes(bool synchronize) { synchronize_ = synchronize; }

  /// A round of its own, in which no gradient arrives here.
  void round_without_gradients();

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    bool used = false;         ///< got a gradient since the last round, in this one or without synchronization
    bool arrived = false;      ///< autograd has been here in this round
    bool settled = false;      ///< its place in the bucket holds what this rank sends
    bool contributes = false;  ///< what it sends is a gradient
    bool reduced = false;      ///< `.grad()` is the ranks' sum already, and nothing was added to it
    at::Tensor kept;           ///< copy of a `.grad()` to be restored if no rank has a gradient
  };

  void hook_gradients();

  void before_gradient(Slot& slot);
  void after_gradient(std::size_t index, bool got_gradient);

  void open_round();
  void finish_at_end_of_backward();
  void finish_round();
  void abandon_round();

  void lay_out();
  void settle(std::size_t index);
  void launch_complete_buckets();
  void launch_next();
  void make_progress();
  void take_results(std::size_t bucket);
  void report_unused();

  const at::Tensor& view(std::size_t index) const { return buckets_.place(index).view; }
  std::vector<at::Tensor> parameters() const;

  Group group_;
  bool mean_;
  CoalescedBroadcast* buffers_;
  std::vector<Slot> slots_;
  GradientBuckets buckets_;

  bool synchronize_ = true;
  bool round_open_ = false;
  int abandoned_ = 0;                     ///< rounds given up because backward threw
  std::vector<std::size_t> arrivals_;     ///< of the first round
  std::vector<std::size_t> missing_;      ///< gradients each bucket waits for
  std::size_t launched_ = 0;              ///< buckets before this one are under way or done
  std::size_t tested_ = 0;                ///< buckets before this one are known to be done
  std::size_t waited_ = 0;                ///< buckets before this one have been waited for
  std::vector<std::string> unused_here_;  ///< names for the log
  bool reported_unused_ = false;

  std::vector<GradientHook> hooks_;  ///< last, so that they go first
};

}  // namespace lockstep::mirrored
