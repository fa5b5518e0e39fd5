// The gradient reducer of data parallel, and the hooks on gradients that tell it of their arrival. The reducer
// synchronizes one backward, called a round, from the first gradient to the last reduction.
//
// A round begins with the first gradient of a backward and ends in a callback that autograd runs at the end of the
// backward. Gradients are moved into their buckets when they arrive, and `.grad()` then stays there. Buckets are
// reduced in a fixed order as soon as they and all earlier buckets are complete; each later arrival drives the pending
// reductions. At the end, parameters without a gradient count as zeros. So every rank sends every bucket in every
// round, and no rank needs the graphs of other ranks.
//
// The first round only records the order of arrival: rank 0's order decides the buckets, which are laid out once at the
// end of the round and never change.
//
// When backward throws on a rank, the other ranks wait in the middle of the round. That rank completes the round at the
// start of its next backward: it sends the remaining buckets, marked as given up. The last bucket is only sent at the
// end of backward, so its mark gives all ranks the number of ranks that gave up: all, some or none. If all gave up,
// they continue; if only some did, all ranks throw, and are synchronized again.
//
// Gradients of sparse embeddings are in no bucket: their rows are exchanged at the end of the round, while the last
// buckets are reduced (sparse_gradient.h).
#pragma once

#include <lockstep/mirrored/gradient_buckets.h>
#include <lockstep/mirrored/replica.h>
#include <lockstep/mirrored/sparse_gradient.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep::mirrored {

// Hooks on the gradients of leaves, which stay in place when a leaf gets other memory.

/// Callbacks before and after backward adds to `.grad()` of a leaf. That happens at most once in a backward, however
/// often the leaf was used. Exceptions of a callback are thrown by `backward()`.
struct GradientCallbacks {
  std::function<void()> before;  ///< only when a gradient will be added; may be empty
  /// `got_gradient` is false when the graph led to the leaf but produced no gradient.
  std::function<void(bool got_gradient)> after;
  /// Called when a gradient arrives at a leaf whose memory or dtype was replaced: must call follow() of all hooks.
  std::function<void()> replaced;
};

/// Installs the callbacks on a leaf, as long as this object exists.
class GradientHook {
 public:
  GradientHook(const at::Tensor& leaf, GradientCallbacks callbacks);

  /// Moves the callbacks to the leaf's current gradient accumulator. True when the accumulator has changed: autograd
  /// makes a new one when the leaf's memory or dtype is replaced, as torch::load and Module::to do.
  bool follow();

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< the leaf's own hook has a weak reference to it
};

/// Calls `arrived` when a gradient is about to be added to a leaf, also to a leaf that does not require gradients yet,
/// as long as this object exists.
class ArrivalHook {
 public:
  ArrivalHook(const at::Tensor& leaf, std::function<void()> arrived);
  ~ArrivalHook();
  ArrivalHook(ArrivalHook&& other) noexcept = default;
  ArrivalHook& operator=(ArrivalHook&&) = delete;
  ArrivalHook(const ArrivalHook&) = delete;
  ArrivalHook& operator=(const ArrivalHook&) = delete;

 private:
  at::Tensor leaf_;
  unsigned position_ = 0;
};

/// Calls `finish` when the backward that runs in this thread ends without an exception; otherwise the copies of
/// `finish` are destroyed without a call. To be called in a hook.
void at_end_of_backward(std::function<void()> finish);

// The reducer.

/// The description of a module for a reducer.
struct ReducedParameters {
  std::vector<NamedTensor> trainable;  ///< their gradients are reduced in buckets
  std::vector<NamedTensor> of_rows;    ///< their gradients are sparse, and exchanged as rows
  std::vector<NamedTensor> frozen;     ///< a gradient for any of them is an error
  /// The number of the module's parameters at the time of the call: a change is an error.
  std::function<std::size_t()> count;
};

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Allocates the buckets and installs hooks on the parameters; a collective. `buffers`, if not null, are broadcast at
  /// the end of each round and must outlive the reducer. The object must be in a shared_ptr; a running backward has a
  /// weak reference to it.
  Reducer(ReducedParameters parameters, const BucketLimits& limits, bool mean, const Group& group,
          CoalescedBroadcast* buffers);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  bool synchronizes() const { return synchronize_; }
  /// While false, gradients accumulate on this rank and no round begins.
  void set_synchronizes(bool synchronize) { synchronize_ = synchronize; }

  /// From now on, this rank votes so in each round.
  void vote(int subject, bool yes) { own_votes_.at(static_cast<std::size_t>(subject)) = yes; }
  /// The number of ranks that voted for it in the last round.
  int votes(int subject) const { return votes_.at(static_cast<std::size_t>(subject)); }

  /// Takes part in a round without gradients of this rank.
  void round_without_gradients();

 private:
  void hook_gradients();
  void watch_frozen(const NamedTensor& frozen);
  /// Installs hooks again on parameters whose memory was replaced. Error(invalid_argument) for a parameter of another
  /// form.
  void follow_replaced_memory();
  void require_replaced_everywhere() const;
  void require_all_parameters() const;
  void hook_rows();
  void gradient_arrived(std::size_t index, bool got_gradient);
  /// False while gradients accumulate on this rank.
  bool is_in_round();

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
  /// Runs a collective, and records when it throws.
  template <typename Call>
  void together(const Call& call);

  void settle(std::size_t index);
  const at::Tensor& place(std::size_t index) const { return buckets_.place(index).view; }

  Group group_;
  bool mean_;
  CoalescedBroadcast* buffers_;
  std::function<std::size_t()> count_;
  std::size_t parameters_at_first_ = 0;
  std::vector<GradientSlot> slots_;  ///< by parameter in buckets
  std::vector<RowSlot> row_slots_;   ///< by the other parameters
  GradientBuckets buckets_;

  bool synchronize_ = true;
  bool round_open_ = false;
  bool owes_round_ = false;            ///< the other ranks wait for the rest of the last round
  bool collective_failed_ = false;     ///< a collective of this round failed: every rank ends the round
  std::vector<std::size_t> arrivals_;  ///< parameters in their order of arrival in the first round
  std::vector<std::size_t> missing_;   ///< number of missing gradients of each bucket
  std::size_t launched_ = 0;           ///< buckets before this one are in progress or done
  std::size_t tested_ = 0;             ///< buckets before this one are known to be done
  bool reported_unused_ = false;
  bool replaced_ = false;  ///< the memory of a parameter was replaced since the last round
  std::array<bool, kVotes> own_votes_{};
  std::array<int, kVotes> votes_{};

  // The last members, so that hooks are removed first.
  std::vector<GradientHook> hooks_;      ///< by parameter in buckets
  std::vector<GradientHook> row_hooks_;  ///< by parameter of rows
  std::vector<ArrivalHook> frozen_hooks_;
};

}  // namespace lockstep::mirrored
