// The cost model of a cluster: rates of work, and times of the best algorithms for collectives.
#include <lockstep/plan/cost/cost_model.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace lockstep::plan {
namespace {

int steps_of_tree(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

/// The two-level algorithm: within the node, then between nodes in as many groups as a node has members of each, then
/// within the node again.
Seconds two_levels(Collective kind, const AxisSpan& span, Bytes bytes, const Link& inside, const Link& across) {
  const Bytes slice = bytes / span.on_node;
  const auto between = [&](Collective what) { return collective_time(what, span.nodes, slice, across); };
  const auto within = [&](Collective what) { return collective_time(what, span.on_node, bytes, inside); };
  switch (kind) {
    case Collective::all_reduce:
      return within(Collective::reduce_scatter) + between(Collective::all_reduce) + within(Collective::all_gather);
    case Collective::all_gather: return between(kind) + within(kind);
    case Collective::reduce_scatter: return within(kind) + between(kind);
    case Collective::all_to_all: return within(kind) + collective_time(kind, span.nodes, bytes, across);
  }
  return {};
}

}  // namespace

std::string_view name(Collective kind) {
  constexpr std::array<std::string_view, kCollectives> names{"all_reduce", "all_gather", "reduce_scatter",
                                                             "all_to_all"};
  return names[static_cast<std::size_t>(kind)];
}

Seconds collective_time(Collective kind, int ranks, Bytes bytes, const Link& link) {
  if (ranks <= 1) return {};
  const Seconds share = bytes / link.bandwidth * (static_cast<double>(ranks - 1) / ranks);
  const Seconds ring = link.latency * (ranks - 1);
  const Seconds tree = link.latency * steps_of_tree(ranks);
  switch (kind) {
    case Collective::all_reduce: return 2 * share + 2 * std::min(ring, tree);
    case Collective::all_gather:
    case Collective::reduce_scatter: return share + std::min(ring, tree);
    case Collective::all_to_all: return share + ring;
  }
  return {};
}

AxisSpan span_of_axis(const Cluster& cluster, std::span<const int> mesh_sizes, std::size_t axis) {
  int stride = 1;
  for (std::size_t later = axis + 1; later < mesh_sizes.size(); ++later) stride *= mesh_sizes[later];
  const int ranks = mesh_sizes[axis];
  const int on_node = std::clamp(cluster.devices_per_node / std::max(stride, 1), 1, ranks);
  const int nodes = (ranks + on_node - 1) / on_node;
  return {.ranks = ranks,
          .nodes = nodes,
          .on_node = on_node,
          .groups_on_node = std::max(1, cluster.devices_per_node / on_node)};
}

Seconds collective_time(Collective kind, const AxisSpan& span, Bytes bytes, const Cluster& cluster) {
  if (span.ranks <= 1) return {};
  if (span.nodes == 1) return collective_time(kind, span.ranks, bytes, cluster.intra_node);
  // The members of a group share the node's link, also with other groups.
  Link of_group = cluster.inter_node;
  of_group.bandwidth = of_group.bandwidth / span.groups_on_node;
  const Seconds one_ring = collective_time(kind, span.ranks, bytes, of_group);
  if (span.on_node == 1) return one_ring;
  Link of_member = of_group;
  of_member.bandwidth = of_member.bandwidth / span.on_node;
  return std::min(one_ring, two_levels(kind, span, bytes, cluster.intra_node, of_member));
}

CostModel cost_model(const Cluster& cluster, std::span<const int> mesh_sizes) {
  std::vector<AxisSpan> spans;
  for (std::size_t axis = 0; axis < mesh_sizes.size(); ++axis) {
    spans.push_back(span_of_axis(cluster, mesh_sizes, axis));
  }
  return {
      .compute =
          [device = cluster.device](const Work& work) {
            if (work.kind == Work::Kind::view) return device.operator_overhead;
            const auto moving = work.touched / device.memory_bandwidth;
            if (work.kind == Work::Kind::memory) return device.operator_overhead + moving;
            const bool is_product = work.kind == Work::Kind::matmul;
            auto computing = work.flops / (is_product ? device.matmul : device.convolution);
            if (is_product && device.matmul_bandwidth) computing += work.touched / *device.matmul_bandwidth;
            return device.operator_overhead + std::max(computing, moving);
          },
      .collective = [cluster, spans](Collective kind, std::size_t axis,
                                     Bytes bytes) { return collective_time(kind, spans.at(axis), bytes, cluster); },
      .overlap = cluster.overlap,
      .memory = cluster.device.memory,
  };
}

ProductRates rates_of(const TimedWork& few, const TimedWork& many) {
  // Two equations, took = work * x + touched * y, by Cramer's rule.
  const double determinant = few.work.value * many.touched.value - many.work.value * few.touched.value;
  const double x = (few.took.value * many.touched.value - many.took.value * few.touched.value) / determinant;
  const double y = (few.work.value * many.took.value - many.work.value * few.took.value) / determinant;
  const FlopsPerSecond plain{many.work.value / many.took.value};
  // A plausible limit: reordering is not most of the time of products with many rows.
  constexpr double kMostReordering = 4;
  const bool believable = x * plain.value * kMostReordering > 1;
  if (!believable || !std::isnormal(x) || !std::isnormal(y) || x < 0 || y < 0) {
    return {.computing = plain, .moving = std::nullopt};
  }
  return {.computing = {1 / x}, .moving = BytesPerSecond{1 / y}};
}

}  // namespace lockstep::plan
