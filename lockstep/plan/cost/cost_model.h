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

/// What one rank does of an operator.
struct Work {
  enum class Kind { matmul, convolution, memory, view };
  Kind kind = Kind::memory;
  Flops flops{};    ///< of products and convolutions
  Bytes touched{};  ///< read and written
};

enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all };
inline constexpr std::size_t kCollectives = 4;
std::string_view name(Collective kind);

struct CostModel {
  std::function<Seconds(const Work&)> compute;
  /// Along axis `axis` of the mesh, by all its groups at once. `bytes`: what each rank has of the whole, which is the
  /// input of an all_reduce, a reduce_scatter and an all_to_all, and the output of an all_gather.
  std::function<Seconds(Collective, std::size_t axis, Bytes bytes)> collective;
  double overlap = 1;  ///< the share of a gradient reduction that can go on beside the backward phase
  Bytes memory{};      ///< of each device
};

/// Bandwidth and latency along the best of ring, tree and, where an axis crosses nodes, the two-level algorithm.
CostModel cost_model(const Cluster& cluster, std::span<const int> mesh_sizes);

/// Where the ranks of one axis are: `on_node` of each group share a node, on `nodes` nodes.
struct AxisSpan {
  int ranks = 1;
  int nodes = 1;
  int on_node = 1;
  int groups_on_node = 1;  ///< groups along this axis that share the node's link
};
AxisSpan span_of_axis(const Cluster& cluster, std::span<const int> mesh_sizes, std::size_t axis);

/// One group of `ranks` ranks over a link of its own; the faster of ring and tree.
Seconds collective_time(Collective kind, int ranks, Bytes bytes, const Link& link);
/// Groups as in `span`, each in the node first and then between nodes where that is faster.
Seconds collective_time(Collective kind, const AxisSpan& span, Bytes bytes, const Cluster& cluster);

}  // namespace lockstep::plan
