#include "rules/simulated_ranks.h"

#include <lockstep/global/placement.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace lockstep::test {
namespace {

double combined(ReduceOp op, const std::vector<double>& values) {
  switch (op) {
    case ReduceOp::max: return *std::max_element(values.begin(), values.end());
    case ReduceOp::min: return *std::min_element(values.begin(), values.end());
    default: break;
  }
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return op == ReduceOp::mean ? sum / static_cast<double>(values.size()) : sum;
}

/// What the rank with `index` on an axis contributes so that all contributions make `value`: different on each rank.
double contribution(ReduceOp op, double value, int index, int ranks) {
  const double spread = index - (ranks - 1) / 2.0;
  switch (op) {
    case ReduceOp::max: return value - index;
    case ReduceOp::min: return value + index;
    case ReduceOp::mean: return value + spread;
    default: return value / ranks + spread;
  }
}

}  // namespace

std::vector<int> SimulatedRanks::coordinate_of(int rank) const {
  std::vector<int> at(mesh_.size());
  for (std::size_t axis = mesh_.size(); axis-- > 0;) {
    at[axis] = rank % mesh_[axis];
    rank /= mesh_[axis];
  }
  return at;
}

int SimulatedRanks::rank_beside(int rank, std::size_t axis, int index) const {
  auto at = coordinate_of(rank);
  at[axis] = index;
  int out = 0;
  for (std::size_t i = 0; i < at.size(); ++i) out = out * mesh_[i] + at[i];
  return out;
}

SimulatedRanks::Held SimulatedRanks::all_of_region(int rank) const {
  const auto at = coordinate_of(rank);
  const auto rows = global::part_of(sizes_.first, 0, placements_, mesh_, at);
  const auto columns = global::part_of(sizes_.second, 1, placements_, mesh_, at);
  Held held;
  for (auto r = rows.begin; r < rows.begin + rows.size; ++r) {
    for (auto c = columns.begin; c < columns.begin + columns.size; ++c) {
      held[{r, c}] = static_cast<double>(r * sizes_.second + c);
    }
  }
  return held;
}

SimulatedRanks::SimulatedRanks(std::vector<int> mesh, std::pair<std::int64_t, std::int64_t> sizes,
                               Placements placements)
    : mesh_(std::move(mesh)), sizes_(sizes), placements_(std::move(placements)) {
  const int ranks = std::accumulate(mesh_.begin(), mesh_.end(), 1, std::multiplies<>());
  for (int rank = 0; rank < ranks; ++rank) {
    auto held = all_of_region(rank);
    const auto at = coordinate_of(rank);
    for (std::size_t axis = 0; axis < mesh_.size(); ++axis) {
      if (!placements_[axis].is_partial()) continue;
      for (auto& [where, value] : held) value = contribution(placements_[axis].op, value, at[axis], mesh_[axis]);
    }
    held_.push_back(std::move(held));
  }
}

std::optional<std::string> SimulatedRanks::make(const global::Step& step) {
  if (placements_[step.axis] != step.from) return fmt::format("the step begins with {}", to_string(step.from));
  const auto before = held_;
  placements_[step.axis] = step.to;
  for (int rank = 0; rank < static_cast<int>(held_.size()); ++rank) {
    const int index = coordinate_of(rank)[step.axis];
    Held held = all_of_region(rank);
    for (auto& [where, value] : held) {
      std::vector<double> there;
      for (int peer = 0; peer < mesh_[step.axis]; ++peer) {
        if (step.from.is_replicate() && peer != index) continue;
        const auto& of_peer = before[static_cast<std::size_t>(rank_beside(rank, step.axis, peer))];
        if (const auto found = of_peer.find(where); found != of_peer.end()) there.push_back(found->second);
      }
      const std::size_t needed = step.from.is_partial() ? static_cast<std::size_t>(mesh_[step.axis]) : 1;
      if (there.size() != needed) return "an element is held by another number of ranks of the line than needed";
      value = step.from.is_partial() ? combined(step.from.op, there) : there.front();
      if (step.to.is_partial(ReduceOp::sum) && index != 0) value = 0;
    }
    held_[static_cast<std::size_t>(rank)] = std::move(held);
  }
  return std::nullopt;
}

std::optional<std::string> SimulatedRanks::check() const {
  // Axes that are partial are finished one after the other, innermost last, as the constructor spread them.
  SimulatedRanks finished = *this;
  for (std::size_t axis = mesh_.size(); axis-- > 0;) {
    if (!placements_[axis].is_partial()) continue;
    if (const auto wrong = finished.make({.axis = axis, .from = placements_[axis], .to = Replicate()})) return wrong;
  }
  for (int rank = 0; rank < static_cast<int>(held_.size()); ++rank) {
    for (const auto& [where, value] : finished.all_of_region(rank)) {
      const auto& held = finished.held_[static_cast<std::size_t>(rank)];
      const auto found = held.find(where);
      if (found == held.end() || std::abs(found->second - value) > 1e-9) return fmt::format("rank {}", rank);
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::test
