// The gradient reducer of data parallel: it synchronizes one backward, called a round, from the first gradient to the
// last reduction.
//
// A round begins with the first gradient of a backward and ends in a callback that autograd runs at the end of the
// backward. Gradients are moved into their buckets when they arrive, and `.grad()` then stays there. Buckets are
// reduced in a fixed order as soon as they and all earlier buckets are complete; each later arrival drives the pending
// reductions. At the end, parameters without a gradient count as zeros. So every rank sends every bucket in every
// round, and no rank needs to know the graphs of the others.
//
// The first round only records the order of arrival: rank 0's order decides the buckets, which are laid out once at the
// end of the round and never change.
//
// When backward throws on a rank, the others wait in the middle of the round. That rank completes the round at the
// start of its next backward: it sends the remaining buckets, marked as given up. The last bucket is only sent at the
// end of backward, so its mark tells all ranks whether all, some or none of them gave up. If all gave up, they
// continue; if only some did, all ranks throw, and are synchronized again.
//
// Gradients of sparse embeddings are in no bucket: their rows are exchanged at the end of the round, while the last
// buckets are reduced (sparse_exchange.h).
#pragma once

#include <lockstep/mirrored/gradient_buckets.h>
#include <lockstep/mirrored/replica.h>
#include <lockstep/mirrored/sparse_exchange.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace lockstep::mirrored {

/// Callbacks before and after backward adds to `.grad()` of a leaf. That happens at most once in a backward, however
/// often the leaf was used. Exceptions of a callback are thrown by `backward()`.
struct GradientCallbacks {
  std::function<void()> before;  ///< only when a gradient will be added; may be empty
  /// `got_gradient` is false when the graph led to the leaf but no gradient came.
  std::function<void(bool got_gradient)> after;
};

/// Installs the callbacks on a leaf, as long as this object exists.
class GradientHook {
 public:
  GradientHook(const at::Tensor& leaf, GradientCallbacks callbacks);
  ~GradientHook();
  GradientHook(GradientHook&& other) noexcept;
  GradientHook& operator=(GradientHook&&) = delete;
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

 private:
  std::shared_ptr<torch::autograd::Node> accumulator_;
  std::uintptr_t key_ = 0;
  std::shared_ptr<std::function<void()>> before_;  ///< autograd cannot remove a pre-hook, so the function is emptied
};

/// Calls `finish` when the backward that runs in this thread ends without an exception; otherwise the copies of
/// `finish` are destroyed without a call. To be called in a hook.
void at_end_of_backward(std::function<void()> finish);

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Allocates the buckets and installs hooks on `parameters`, which all require gradients; a collective. `buffers`, if
  /// not null, are broadcast at the end of each round and must outlive the reducer. `row_parameters` are those whose
  /// gradients are sparse; together they are at least one. The object must be in a shared_ptr;
  /// a running backward has a weak reference to it.
  Reducer(std::vector<NamedTensor> parameters, std::vector<NamedTensor> row_parameters, const BucketLimits& limits,
          bool mean, const Group& group, CoalescedBroadcast* buffers);
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
  /// Of at least one parameter, all in buckets.
  Reducer(std::vector<NamedTensor> parameters, const BucketLimits& limits, bool mean, const Group& group,
          CoalescedBroadcast* buffers);
  void hook_gradients();
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
  std::vector<GradientSlot> slots_;  ///< by parameter in buckets
  std::vector<RowSlot> row_slots_;   ///< the others
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
  std::array<bool, kVotes> own_votes_{};
  std::array<int, kVotes> votes_{};

  std::vector<GradientHook> hooks_;  ///< last member, so that hooks are removed first
};

}  // namespace lockstep::mirrored
