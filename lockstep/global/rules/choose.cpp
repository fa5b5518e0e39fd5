// The choice axis by axis of the signature with the least cost; a second pass uses the placements of the results.
#include <lockstep/global/placement.h>
#include <lockstep/global/rules/choose.h>

#include <algorithm>
#include <limits>

namespace lockstep::global {
namespace {

/// The relative cost of changes that send nothing: taking a part of a replicated value, or an axis of one rank.
constexpr double kCut = 1e-6;

double cost_of_input(const TensorInfo& info, const Placement& now, const std::optional<Placement>& needed, double bytes,
                     int ranks) {
  if (!needed || now == *needed) return 0;
  if (info.ordinary) return std::numeric_limits<double>::infinity();
  if (needed->is_partial()) return 2.1 * bytes;  // more than an all_reduce: prefer values that are reduced
  if (now.is_replicate()) return kCut * bytes;
  // A reduce_scatter costs as much as an all_reduce here, because its result is usually gathered later.
  return traffic(now, now.is_partial() ? Replicate() : *needed, bytes, ranks) + kCut * bytes;
}

/// The cost of an output with `placement` if `wanted` is required: the redistribution afterwards.
double cost_of_output(const Placement& placement, const Placement& wanted, double bytes, int ranks) {
  if (placement == wanted) return 0;
  if (placement.is_replicate()) return kCut * bytes;
  return traffic(placement, wanted, bytes, ranks);
}

/// The bytes of a tensor on one rank, sharded along all axes except `axis`.
double bytes_beside(const TensorInfo& info, const Placements& now, std::size_t axis, std::span<const int> mesh_sizes) {
  double bytes = info.bytes();
  for (std::size_t other = 0; other < now.size(); ++other) {
    if (other != axis && now[other].is_shard()) bytes /= mesh_sizes[other];
  }
  return bytes;
}

bool sends(const TensorInfo& info, const Placement& now, const std::optional<Placement>& needed) {
  return info.defined && needed && now != *needed && !now.is_replicate();
}

/// The bytes that reducing the results of `way` costs their next use, if this choice causes it: if the way sends inputs
/// to get partial results, or passes on a partial input. Results that are partial because of the placements of the
/// inputs (rows of a weight as in Megatron, gradients of weights from a divided batch) follow from the requested
/// placements, and dividing a replicated input saves work, so these ways are not charged. `outputs` are the placements
/// that the results are expected to have on the other axes.
double cost_of_partial_results(const Signature& way, const OpCall& call, const std::vector<Placements>& now,
                               const std::vector<std::optional<Placements>>& wanted,
                               const std::vector<Placements>& outputs, std::size_t axis,
                               std::span<const int> mesh_sizes) {
  bool counts = false;
  int element_bytes = std::numeric_limits<int>::max();  // a conversion alone does not justify a reduction before it
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const auto& info = call.tensors[i];
    const bool hands_on = info.defined && now[i][axis].is_partial() && way.inputs[i] == now[i][axis];
    if (hands_on) element_bytes = std::min(element_bytes, info.element_bytes);
    counts = counts || hands_on || sends(info, now[i][axis], way.inputs[i]);
  }
  double cost = 0;
  for (std::size_t i = 0; counts && i < call.outputs.size(); ++i) {
    const auto& info = call.outputs[i];
    if (!info.defined || !way.outputs[i].is_partial() || (i < wanted.size() && wanted[i])) continue;
    const double bytes = bytes_beside(info, outputs[i], axis, mesh_sizes) / info.element_bytes *
                         std::min(element_bytes, info.element_bytes);
    cost += traffic(way.outputs[i], Replicate(), bytes, mesh_sizes[axis]);
  }
  return cost;
}

/// Whether the sharded dimensions of all inputs have equal sizes, so that a rank has the same rows of each. If logical
/// sizes do not match, the parts on some ranks might match or be broadcast, and the error would not be detected.
bool parts_correspond(const Signature& signature, const OpCall& call) {
  if (signature.in_groups) return true;
  std::optional<std::int64_t> rows;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const auto& placement = signature.inputs[i];
    if (!call.tensors[i].defined || !placement || !placement->is_shard()) continue;
    const auto of_input = call.tensors[i].sizes[static_cast<std::size_t>(placement->dim)];
    if (rows.value_or(of_input) != of_input) return false;
    rows = of_input;
  }
  return true;
}

}  // namespace

std::vector<Signature> candidates_of(const Rule* rule, OpCall call, int ranks, int all_ranks) {
  call.ranks = ranks;
  call.all_ranks = all_ranks;
  std::vector<Signature> candidates{replicated(call)};
  if (rule) {
    for (auto& each : rule->signatures(call)) {
      if (parts_correspond(each, call)) candidates.push_back(std::move(each));
    }
  }
  return candidates;
}

Choice choose(const Rule* rule, const OpCall& call, const std::vector<Placements>& now,
              const std::vector<std::optional<Placements>>& wanted, std::span<const int> mesh_sizes) {
  int all_ranks = 1;
  for (const int ranks : mesh_sizes) all_ranks *= ranks;
  std::vector<std::vector<Signature>> candidates;
  for (const int ranks : mesh_sizes) candidates.push_back(candidates_of(rule, call, ranks, all_ranks));
  std::vector<const std::vector<Signature>*> by_axis;
  for (const auto& each : candidates) by_axis.push_back(&each);
  return choose_among(by_axis, call, now, wanted, mesh_sizes);
}

namespace {

/// Chooses on each axis, for results that are expected to have the placements `outputs` on the other axes.
Choice choose_for(const std::vector<Placements>& outputs, std::span<const std::vector<Signature>* const> candidates,
                  const OpCall& call, const std::vector<Placements>& now,
                  const std::vector<std::optional<Placements>>& wanted, std::span<const int> mesh_sizes) {
  Choice choice{.inputs = now,
                .outputs = std::vector<Placements>(call.outputs.size(), Placements(mesh_sizes.size())),
                .bytes = 0};
  for (std::size_t axis = 0; axis < mesh_sizes.size(); ++axis) {
    const int ranks = mesh_sizes[axis];
    const Signature* best = &candidates[axis]->front();  // all replicated: always valid
    double least = std::numeric_limits<double>::infinity();
    for (const auto& candidate : *candidates[axis]) {
      double cost = 0;
      for (std::size_t i = 0; i < call.tensors.size(); ++i) {
        if (!call.tensors[i].defined) continue;
        cost += cost_of_input(call.tensors[i], now[i][axis], candidate.inputs[i],
                              bytes_beside(call.tensors[i], now[i], axis, mesh_sizes), ranks);
      }
      // An overwritten tensor keeps its placement if costs are equal.
      if (call.in_place && !candidate.inputs[0] && candidate.outputs[0] != now[0][axis])
        cost += kCut / 2 * call.tensors[0].bytes();
      for (std::size_t i = 0; i < call.outputs.size(); ++i) {
        if (i >= wanted.size() || !wanted[i]) continue;
        cost += cost_of_output(candidate.outputs[i], (*wanted[i])[axis],
                               bytes_beside(call.outputs[i], *wanted[i], axis, mesh_sizes), ranks);
      }
      cost += cost_of_partial_results(candidate, call, now, wanted, outputs, axis, mesh_sizes);
      if (cost < least) {
        least = cost;
        best = &candidate;
      }
    }
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      if (best->inputs[i]) choice.inputs[i][axis] = *best->inputs[i];
    }
    if (!best->inputs.empty() && !best->inputs[0]) choice.unread_self = true;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) choice.outputs[i][axis] = best->outputs[i];
    choice.bytes += least;
  }
  return choice;
}

}  // namespace

Choice choose_among(std::span<const std::vector<Signature>* const> candidates, const OpCall& call,
                    const std::vector<Placements>& now, const std::vector<std::optional<Placements>>& wanted,
                    std::span<const int> mesh_sizes) {
  const std::vector<Placements> whole(call.outputs.size(), Placements(mesh_sizes.size()));
  auto choice = choose_for(whole, candidates, call, now, wanted, mesh_sizes);
  // The effect of the other axes on the results is determined only now.
  if (mesh_sizes.size() > 1 && !call.outputs.empty()) {
    choice = choose_for(choice.outputs, candidates, call, now, wanted, mesh_sizes);
  }
  return choice;
}

}  // namespace lockstep::global
