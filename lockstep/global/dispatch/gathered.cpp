// The counters of calls that gather: the bytes of a choice without divided inputs, and a list by bytes.
#include <lockstep/global/dispatch/gathered.h>
#include <lockstep/global/transitions.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::global {

GatheredWay& GatheredWays::way(const std::string& call, bool has_rule, bool& is_new) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(ways_.begin(), ways_.end(), [&](const auto& each) { return each->call == call; });
  is_new = found == ways_.end();
  if (!is_new) return **found;
  ways_.push_back(std::make_unique<GatheredWay>(GatheredWay{.call = call, .has_rule = has_rule}));
  return *ways_.back();
}

std::vector<GatheredWay> GatheredWays::called() const {
  const std::lock_guard lock(mutex_);
  std::vector<GatheredWay> called;
  for (const auto& each : ways_) {
    if (each->calls > 0) called.push_back(*each);
  }
  std::stable_sort(called.begin(), called.end(),
                   [](const GatheredWay& a, const GatheredWay& b) { return a.bytes > b.bytes; });
  return called;
}

double gathered_bytes(const Choice& choice, const OpCall& call, const std::vector<Placements>& now,
                      std::span<const int> mesh_sizes) {
  double bytes = 0;
  const auto divided = [](const std::vector<Placements>& all, std::size_t axis) {
    return std::any_of(all.begin(), all.end(), [&](const Placements& each) { return each[axis].is_shard(); });
  };
  for (std::size_t axis = 0; axis < mesh_sizes.size(); ++axis) {
    if (mesh_sizes[axis] < 2 || divided(choice.inputs, axis) || divided(choice.outputs, axis)) continue;
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      if (!call.tensors[i].defined || !now[i][axis].is_shard()) continue;
      bytes += traffic(now[i][axis], Replicate(), call.tensors[i].bytes(), mesh_sizes[axis]);
    }
  }
  return bytes;
}

std::vector<std::string> texts_of(const std::vector<GatheredWay>& ways) {
  std::vector<std::string> texts;
  for (const auto& each : ways) {
    texts.push_back(fmt::format("{}: {} call{}, {:.3g} MB{}", each.call, each.calls, each.calls == 1 ? "" : "s",
                                each.bytes / 1e6, each.has_rule ? "" : " (no sharding rule)"));
  }
  return texts;
}

}  // namespace lockstep::global
