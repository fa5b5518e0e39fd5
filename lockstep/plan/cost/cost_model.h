// The cost model: the work of an operator, and the time of work and collectives, as a table of functions that tests can
// replace. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/rules/signature.h>
#include <lockstep/plan/cluster.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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

/// The time of a collective in one group of `ranks` ranks with a separate link; the faster of ring and tree.
Seconds collective_time(Collective kind, int ranks, Bytes bytes, const Link& link);
/// The time of a collective in groups as in `span`; two-level (first within nodes, then between nodes) if that is
/// faster.
Seconds collective_time(Collective kind, const AxisSpan& span, Bytes bytes, const Cluster& cluster);

/// The sizes of the largest part of a tensor over all ranks.
global::Sizes largest_part(const global::TensorInfo& info, const Placements& placements,
                           std::span<const int> mesh_sizes);
/// The bytes of the largest part of a tensor.
Bytes bytes_of_part(const global::TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes);

/// Whether the call's outputs are views of its first input.
bool is_view(const global::OpCall& call);

/// The work of one rank for a call. `inputs` and `outputs` are the sizes of its parts, one for each tensor of the call.
Work work_of(const global::OpCall& call, std::span<const global::Sizes> inputs, std::span<const global::Sizes> outputs);

/// The work to read and prepare a rank's part of an input on the host. It is small, but makes a sharded batch better
/// than one that each rank reads completely.
Work loading_of(Bytes part);

/// The work to copy a gradient of that many bytes into a bucket before a reduction, or out of it afterwards.
Work copying_of(Bytes gradient);

/// The copies of a step of redistribute(): collectives need the divided dimension in front, and separate result
/// tensors. `before` and `after` are the bytes of a rank's part.
Work copying_of_step(const global::Step& step, Bytes before, Bytes after);

/// A collective inside an operator with sharded inputs: the statistics of a batch norm, or the sum of a softmax along a
/// sharded dimension.
struct InnerCollective {
  Collective kind = Collective::all_reduce;
  std::size_t axis = 0;
  Bytes bytes{};
};
std::vector<InnerCollective> inner_collectives(const global::OpCall& call, std::span<const Placements> inputs,
                                               std::span<const int> mesh_sizes);

/// One measurement of matrix products.
struct TimedWork {
  Flops work{};
  Bytes touched{};
  Seconds took{};
};

/// The rates of matrix products.
struct ProductRates {
  FlopsPerSecond computing{};
  std::optional<BytesPerSecond> moving;  ///< absent if time is proportional to the work
};

/// The model: a product takes work / computing + touched / moving, because libraries reorder matrices first, which is
/// most of the time for small batches and negligible for large ones. `few` and `many` are the same products with few
/// and with many rows. If the measurements do not fit the model (a disturbed measurement), the result is the rate of
/// `many`.
ProductRates rates_of(const TimedWork& few, const TimedWork& many);

}  // namespace lockstep::plan
