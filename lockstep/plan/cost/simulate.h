// The cost of a plan, by simulation of one step in the order of execution, with its gradient reductions: one after the
// other, parallel to the backward phase, or as lower bounds. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/plan/cost/decisions.h>

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::plan {

/// The placements of parameters, buffers and inputs, indexed by the program's values (others are ignored).
using Assignment = std::vector<PlacedAs>;

struct Memory {
  Bytes parameters{};  ///< including buffers
  Bytes gradients{};
  Bytes optimizer_state{};
  Bytes activations{};    ///< at the peak, including copies for redistribution
  Bytes communication{};  ///< gradient buckets

  Bytes total() const { return parameters + gradients + optimizer_state + activations + communication; }
};

struct ModuleCost {
  Seconds compute{};
  Seconds communication{};  ///< communication that is not hidden behind computation
  Bytes moved{};            ///< bytes in collectives, of each rank

  Seconds total() const { return compute + communication; }
};

struct Prediction {
  Seconds cost{};  ///< time of the step
  Seconds compute{};
  Seconds communication{};   ///< collectives inside operators
  Seconds redistribution{};  ///< redistributions between operators
  Seconds reduction{};       ///< reductions of gradients, including the hidden part
  Seconds exposed{};         ///< the part of `reduction` that the step waits for
  Memory memory;
  Traffic traffic;
  std::vector<ModuleCost> modules;  ///< one for each of Program::modules; empty unless requested
};

/// The sizes of gradient buckets, as in reduce_gradients_in_buckets().
struct BucketSizes {
  Bytes first{1 << 20};
  Bytes others{25 << 20};
};

enum class Detail { totals, modules };

/// Predicts a step of `program` on each rank with the placements of `assignment`. `decisions` are those of the program
/// on the same mesh.
Prediction simulate(const Program& program, Decisions& decisions, const Assignment& assignment,
                    Detail detail = Detail::totals, const BucketSizes& buckets = {});

/// The reductions of one step, which run sequentially and overlap with the backward phase.
class ReductionStream {
 public:
  ReductionStream(Decisions& decisions, const BucketSizes& sizes) : decisions_(decisions), sizes_(sizes) {}

  /// Adds `times` gradients that are complete at `now` with placements `from`, and must get placements `to`. Advances
  /// `now` by the time that cannot overlap with the backward phase.
  void add(const TensorInfo& info, PlacedAs from, PlacedAs to, double times, std::size_t module, Seconds& now);
  /// Completes all reductions and advances `now` to their end.
  void finish(Seconds& now);

  Seconds total() const { return total_; }
  /// The time by which copies into and out of buckets have advanced `now`, without the reductions.
  Seconds copied() const { return copied_; }
  const Traffic& traffic() const { return traffic_; }
  /// The memory of all bucket pieces; they are kept from step to step, and the last sums stay in them.
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
    Bytes bytes{};  ///< bytes of all `times` gradients
  };
  struct Bucket {
    Bytes bytes{};
    std::vector<Pending> gradients;
  };
  struct UnderWay {
    std::size_t axis = 0;
    Bytes bytes{};
    Seconds copying{};  ///< copy time out of the bucket, if its sums do not stay
    Bytes piece{};      ///< memory of its piece
  };
  using Key = std::pair<std::size_t, Collective>;  ///< axis and kind

  void put(Pending gradient, Seconds& now);
  void start(const Key& key, Bucket bucket, Seconds& now);
  /// The time of copies into a bucket or out of it, one gradient after the other.
  Seconds copying(const Bucket& bucket, const Key& key, bool out) const;
  /// Adds a bucket in progress; if there are too many, the first one must end before.
  void go_under_way(UnderWay bucket);
  void copy_back(Seconds& now);

  Decisions& decisions_;
  BucketSizes sizes_;
  bool first_ = true;
  Seconds free_at_{};
  Seconds copying_back_{};  ///< time of copies out of buckets in which no sums stay
  std::deque<UnderWay> under_way_;
  Bytes bytes_under_way_{};
  std::map<std::size_t, std::multiset<double>> free_;  ///< pieces by axis, as in BucketMemory
  Bytes memory_{};
  Seconds copied_{};
  Seconds total_{};
  Traffic traffic_;
  std::map<Key, Bucket> collecting_;
  std::vector<Pending> again_;  ///< partial on another axis: reduced at the end
  std::map<std::size_t, std::pair<Seconds, Bytes>> by_module_;
};

/// Costs in seconds, for all axes on which a partial gradient must be reduced.
struct ReductionCosts {
  double sending = 0;      ///< the bandwidth part of the reductions, a lower bound of their time
  double copying_in = 0;   ///< copies into buckets
  double copying_out = 0;  ///< copies out of buckets, for sharded gradients only: sums may stay in the bucket
};
/// Lower bounds of the cost of reducing one gradient by itself.
ReductionCosts reduction_costs(const Decisions& decisions, const TensorInfo& info, const Placements& from,
                               const Placements& to);

}  // namespace lockstep::plan
