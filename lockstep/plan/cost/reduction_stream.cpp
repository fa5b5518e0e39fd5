#include <lockstep/plan/cost/reduction_stream.h>
#include <lockstep/plan/cost/work.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace lockstep::plan {
namespace {

/// The first axis on which a sum has to be finished, and how.
std::optional<std::pair<std::size_t, Collective>> next_reduction(const Placements& now, const Placements& goal,
                                                                 std::span<const int> mesh_sizes) {
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (!now[axis].is_partial() || goal[axis].is_partial() || mesh_sizes[axis] == 1) continue;
    return std::pair(axis, goal[axis].is_shard() ? Collective::reduce_scatter : Collective::all_reduce);
  }
  return std::nullopt;
}

}  // namespace

void ReductionStream::add(const TensorInfo& info, PlacedAs from, PlacedAs to, double times, std::size_t module,
                          Seconds& now) {
  if (from == to) return;
  put({.info = info,
       .now = decisions_.placements(from),
       .goal = decisions_.placements(to),
       .times = times,
       .module = module,
       .bytes = times * bytes_of_part(info, decisions_.placements(from), decisions_.mesh_sizes())},
      now);
}

void ReductionStream::put(Pending gradient, Seconds& now) {
  const auto key = next_reduction(gradient.now, gradient.goal, decisions_.mesh_sizes());
  if (!key) {  // no sum: it is brought to its goal at once, by itself
    const auto spent = gradient.times * decisions_.redistribution(gradient.info, gradient.now, gradient.goal, traffic_);
    total_ += spent;
    now += spent;
    by_module_[gradient.module].first += spent;
    return;
  }
  auto& bucket = collecting_[*key];
  bucket.bytes += gradient.bytes;
  bucket.gradients.push_back(std::move(gradient));
  if (bucket.bytes < (first_ ? sizes_.first : sizes_.others)) return;
  first_ = false;
  start(*key, std::exchange(bucket, {}), now);
}

Seconds ReductionStream::copying(const Bucket& bucket, const Key& key, bool out) const {
  const auto [axis, kind] = key;
  const bool scattered = out && kind == Collective::reduce_scatter;
  Seconds total{};
  for (const auto& each : bucket.gradients) {
    const auto bytes = each.bytes / each.times;
    const auto copied = scattered ? bytes / decisions_.mesh_sizes()[axis] : bytes;
    total += each.times * decisions_.model().compute(copying_of(copied));
  }
  return total;
}

void ReductionStream::start(const Key& key, Bucket bucket, Seconds& now) {
  const auto [axis, kind] = key;
  // One entry may stand for many layers, and so for more than one bucket; a gradient is never divided.
  Bytes least = sizes_.others;
  for (const auto& each : bucket.gradients) least = std::max(least, each.bytes / each.times);
  const double pieces = std::max(1.0, std::floor(bucket.bytes / least));
  const auto spent = pieces * decisions_.model().collective(kind, axis, bucket.bytes / pieces);
  traffic_.add(kind, bucket.bytes / pieces, pieces);
  total_ += spent;
  const double beside = decisions_.model().overlap;
  const auto copying_in = copying(bucket, key, /*out=*/false);
  copied_ += copying_in;
  now += copying_in + (1 - beside) * spent;
  free_at_ = std::max(free_at_, now) + beside * spent;
  const auto copying_out = copying(bucket, key, /*out=*/true);
  bool may_stay = kind == Collective::all_reduce;
  for (auto& each : bucket.gradients) {
    auto& [seconds, bytes] = by_module_[each.module];
    seconds += spent * (each.bytes / bucket.bytes);
    bytes += each.bytes;
    each.now[axis] = each.goal[axis];
    each.bytes = each.times * bytes_of_part(each.info, each.now, decisions_.mesh_sizes());
    if (each.now == each.goal) continue;
    may_stay = false;
    again_.push_back(std::move(each));
  }
  started_.push_back({pieces, bucket.bytes / pieces, may_stay ? copying_out / pieces : Seconds{}});
  if (!may_stay) copying_back_ += copying_out;
}

void ReductionStream::copy_back(Seconds& now) {
  now = std::max(now, free_at_) + copying_back_;
  copied_ += std::exchange(copying_back_, {});
}

Seconds ReductionStream::copying_of_early_sums() const {
  Seconds total{};
  double left = kMostBucketsUnderWay;
  for (auto each = started_.rbegin(); each != started_.rend(); ++each) {
    const double staying = std::min(left, each->buckets);
    left -= staying;
    total += (each->buckets - staying) * each->copying;
  }
  return total;
}

Bytes ReductionStream::memory() const {
  auto largest_first = started_;
  std::sort(largest_first.begin(), largest_first.end(),
            [](const Started& a, const Started& b) { return a.bytes > b.bytes; });
  Bytes total{};
  double left = kMostBucketsUnderWay;
  for (const auto& each : largest_first) {
    const double under_way = std::min(left, each.buckets);
    left -= under_way;
    total += under_way * each.bytes;
  }
  return total;
}

void ReductionStream::finish(Seconds& now) {
  while (!collecting_.empty() || !again_.empty()) {
    for (auto& [key, bucket] : std::exchange(collecting_, {})) {
      if (!bucket.gradients.empty()) start(key, std::move(bucket), now);
    }
    copy_back(now);
    for (auto& each : std::exchange(again_, {})) put(std::move(each), now);
  }
  copying_back_ += copying_of_early_sums();
  copy_back(now);
}

}  // namespace lockstep::plan
