// The order of steps between placements: reductions, release of shards from the last axis on, then new shards.
#include <lockstep/global/transitions.h>

namespace lockstep::global {
namespace {

class SplitWay {
 public:
  SplitWay(Placements from, const Placements& to) : now_(std::move(from)), to_(to) {}

  std::vector<Step> steps() && {
    reduce_where_possible();
    release_shards();
    arrive();
    return std::move(steps_);
  }

 private:
  void step(std::size_t axis, const Placement& to) {
    if (now_[axis] == to) return;
    steps_.push_back({.axis = axis, .from = now_[axis], .to = to});
    now_[axis] = to;
  }

  /// Whether `axis` may now shard the dimension of its goal: all earlier axes that will shard that dimension already
  /// do, and no later axis does.
  bool may_shard(std::size_t axis) const {
    const auto dim = to_[axis].dim;
    for (std::size_t other = 0; other < now_.size(); ++other) {
      const bool should = other < axis && to_[other].is_shard(dim);
      if (other != axis && now_[other].is_shard(dim) != should) return false;
    }
    return true;
  }

  /// First the reductions whose result is already the goal, while tensors are small.
  void reduce_where_possible() {
    for (std::size_t axis = 0; axis < now_.size(); ++axis) {
      if (!now_[axis].is_partial() || now_[axis] == to_[axis]) continue;
      if (!to_[axis].is_shard()) {
        step(axis, Replicate());
      } else if (may_shard(axis)) {
        step(axis, to_[axis]);
      }
    }
  }

  /// Whether `axis` shards a dimension whose sharding will change on `axis` or on an earlier axis.
  bool must_release(std::size_t axis) const {
    const auto dim = now_[axis].dim;
    for (std::size_t outer = 0; outer <= axis; ++outer) {
      if (now_[outer].is_shard(dim) != to_[outer].is_shard(dim)) return true;
    }
    return false;
  }

  void release_shards() {
    std::vector<bool> release(now_.size());
    for (std::size_t axis = 0; axis < now_.size(); ++axis) release[axis] = now_[axis].is_shard() && must_release(axis);
    for (std::size_t axis = now_.size(); axis-- > 0;) {
      if (!release[axis]) continue;
      const bool directly = to_[axis].is_shard() && to_[axis] != now_[axis] && may_shard(axis);
      step(axis, directly ? to_[axis] : Replicate());
    }
  }

  void arrive() {
    for (std::size_t axis = 0; axis < now_.size(); ++axis) {
      if (now_[axis].is_partial() && to_[axis].is_partial() && now_[axis] != to_[axis]) step(axis, Replicate());
      step(axis, to_[axis]);
    }
  }

  Placements now_;
  const Placements& to_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> transitions(const Placements& from, const Placements& to) { return SplitWay(from, to).steps(); }

double traffic(const Placement& from, const Placement& to, double bytes, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (from == to || from.is_replicate()) return 0;
  if (from.is_partial()) return to.is_shard() ? bytes * others : 2 * bytes * others;
  return to.is_shard() ? bytes * others / ranks : bytes * others;
}

}  // namespace lockstep::global
