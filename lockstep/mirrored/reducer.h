// The reducer: one synchronized backward, called a round, from the first gradient to the last reduction.
//
// A round opens with the first gradient of a backward and ends in a callback that autograd runs at the end of it. As
// gradients arrive they are moved into their buckets, where `.grad()` then stays, and buckets are reduced in a fixed
// order as soon as they and those before them are complete; each later arrival drives the reductions under way. At the
// end, parameters without a gradient count as zeros, so every rank sends every bucket in every round and no rank needs
// to know what the others' graphs look like.
//
// The first round only watches: the order in which rank 0's gradients arrived decides the buckets, which are laid out
// once at its end and never change.
//
// When backward throws on some rank, the others are waiting in the middle of the round. That rank makes up for it when
// it comes to its next backward: it sends the rest of the buckets, marked as given up. The last bucket is only sent at
// the end of backward, so its mark tells all ranks alike whether all, some or none of them got through. If all gave up,
// they go on; if some did, all throw, and are in step again.
#pragma once

#include <lockstep/mirrored/autograd_hooks.h>
#include <lockstep/mirrored/coalesced_broadcast.h>
#include <lockstep/mirrored/gradient_buckets.h>
#include <lockstep/mirrored/gradient_slot.h>
#include <lockstep/mirrored/replica.h>

#include <cstddef>
#include <memory>
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

  /// From now on this rank votes to stop in each round.
  void vote_to_stop() { votes_to_stop_ = true; }
  /// Ranks that said so in the last bucket of the last round.
  int stop_votes() const { return stop_votes_; }

  /// A round of its own, in which no gradient arrives here.
  void round_without_gradients();

 private:
  void hook_gradients();
  void gradient_arrived(std::size_t index, bool got_gradient);

  void open_round();
  void finish_at_end_of_backward();
  void finish_round();
  void give_up_round() noexcept;
  void make_up_for_round();

  void lay_out();
  void launch_complete_buckets();
  void launch_settled();
  void launch_next(bool gave_up);
  void make_progress();
  void start_buffers();
  void finish_buffers();
  void take_results();
  void require_that_nobody_gave_up();
  void report_unused();
  /// Runs a collective, and notes when it throws.
  template <typename Call>
  void together(const Call& call);

  void settle(std::size_t index);
  const at::Tensor& place(std::size_t index) const { return buckets_.place(index).view; }

  Group group_;
  bool mean_;
  CoalescedBroadcast* buffers_;
  std::vector<GradientSlot> slots_;  ///< by parameter
  GradientBuckets buckets_;

  bool synchronize_ = true;
  bool round_open_ = false;
  bool owes_round_ = false;            ///< the other ranks wait for the rest of the last round
  bool collective_failed_ = false;     ///< in this round, which every rank then leaves
  std::vector<std::size_t> arrivals_;  ///< of the first round
  std::vector<std::size_t> missing_;   ///< gradients each bucket waits for
  std::size_t launched_ = 0;           ///< buckets before this one are under way or done
  std::size_t tested_ = 0;             ///< buckets before this one are known to be done
  bool reported_unused_ = false;
  bool votes_to_stop_ = false;
  int stop_votes_ = 0;

  std::vector<GradientHook> hooks_;  ///< last, so that they go first
};

}  // namespace lockstep::mirrored
