// The reductions of gradients, one after the other beside the backward phase. Pure.
#pragma once

#include <lockstep/global/gradient_reduction.h>
#include <lockstep/plan/cost/simulate.h>

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::plan {

class ReductionStream {
 public:
  ReductionStream(Decisions& decisions, const BucketSizes& sizes) : decisions_(decisions), sizes_(sizes) {}

  /// A gradient lies as `from` at `now` and is to lie as `to`; `times` of them come. What cannot be done beside the
  /// backward phase moves `now`.
  void add(const TensorInfo& info, PlacedAs from, PlacedAs to, double times, std::size_t module, Seconds& now);
  /// Reduces all that is left; the step goes on when `now` is reached.
  void finish(Seconds& now);

  Seconds total() const { return total_; }
  /// What copying into buckets and out of them has moved `now`, apart from the reductions.
  Seconds copied() const { return copied_; }
  const Traffic& traffic() const { return traffic_; }
  /// Of all pieces in which buckets travel; they are kept from step to step, and the last sums stay in theirs.
  Bytes memory() const { return memory_; }
  /// Time and bytes by module.
  const std::map<std::size_t, std::pair<Seconds, Bytes>>& by_module() const { return by_module_; }

 private:
  struct Pending {
    TensorInfo info;
    Placements now;
    Placements goal;
    double times = 1;
    std::size_t module = 0;
    Bytes bytes{};  ///< of all of them
  };
  struct Bucket {
    Bytes bytes{};
    std::vector<Pending> gradients;
  };
  struct UnderWay {
    std::size_t axis = 0;
    Bytes bytes{};
    Seconds copying{};  ///< out of it, if its sums do not stay
    Bytes piece{};      ///< in which it travels
  };
  using Key = std::pair<std::size_t, Collective>;  ///< axis and kind

  void put(Pending gradient, Seconds& now);
  void start(const Key& key, Bucket bucket, Seconds& now);
  /// Into a bucket or out of it, one gradient after the other.
  Seconds copying(const Bucket& bucket, const Key& key, bool out) const;
  /// One more than there were; the first of those may have to end for it.
  void go_under_way(UnderWay bucket);
  void copy_back(Seconds& now);

  Decisions& decisions_;
  BucketSizes sizes_;
  bool first_ = true;
  Seconds free_at_{};
  Seconds copying_back_{};  ///< out of buckets in which nothing stays
  std::deque<UnderWay> under_way_;
  Bytes bytes_under_way_{};
  std::map<std::size_t, std::multiset<double>> free_;  ///< pieces by axis, as BucketMemory has them
  Bytes memory_{};
  Seconds copied_{};
  Seconds total_{};
  Traffic traffic_;
  std::map<Key, Bucket> collecting_;
  std::vector<Pending> again_;  ///< partial on a further axis: their turn comes at the end
  std::map<std::size_t, std::pair<Seconds, Bytes>> by_module_;
};

}  // namespace lockstep::plan
