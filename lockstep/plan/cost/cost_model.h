// The cost model: the time of work and collectives, as a table of functions that tests can replace. Pure.
#pragma once

#include <lockstep/global/placement.h>
#include <lockstep/plan/cluster.h>
#include <lockstep/plan/units.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

namespace lockstep::plan {

/// The work of one rank for an operator.
struct Work {
  enum class Kind { matmul, convolution, memory, view };
  Kind kind = Kind::memory;
  Flops flops{};    ///< operations of matrix products and convolutions
  Bytes touched{};  ///< bytes read and written
};

enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all };
inline constexpr std::size_t kCollectives = 4;
std::string_view name(Collective kind);

struct CostModel {
  std::function<Seconds(const Work&)> compute;
  /// The time of a collective along axis `axis` of the mesh, in all its groups at the same time. `bytes` of each rank:
  /// the input of an all_reduce, a reduce_scatter and an all_to_all, or the output of an all_gather.
  std::function<Seconds(Collective, std::size_t axis, Bytes bytes)> collective;
  double overlap = 1;  ///< the fraction of a gradient reduction that can overlap with the backward phase
  Bytes memory{};      ///< memory of each device
};

/// The cost model of a cluster: bandwidth and latency of the best algorithm, which is ring, tree or, for an axis across
/// nodes, two-level.
CostModel cost_model(const Cluster& cluster, std::span<const int> mesh_sizes);

/// The location of the ranks along one axis: each group is on `nodes` nodes, with `on_node` ranks on each.
struct AxisSpan {
  int ranks = 1;
  int nodes = 1;
  int on_node = 1;
  int groups_on_node = 1;  ///< groups along this axis that share the node's link
};
AxisSpan span_of_axis(const Cluster& cluster, std::span<const int> mesh_sizes, std::size_t axis);

/// The time of a collective in one group of `ranks` ranks with a link of its own; the faster of ring and tree.
Seconds collective_time(Collective kind, int ranks, Bytes bytes, const Link& link);
/// The time of a collective in groups as in `span`; two-level (first within nodes, then between nodes) if that is
/// faster.
Seconds collective_time(Collective kind, const AxisSpan& span, Bytes bytes, const Cluster& cluster);

}  // namespace lockstep::plan
