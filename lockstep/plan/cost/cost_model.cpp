// The cost model of a cluster: rates of work, times of the best algorithms for collectives, and the work of each kind
// of operator on a rank's parts.
#include <lockstep/global/placement.h>
#include <lockstep/plan/cost/cost_model.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>
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

namespace {

using global::OpCall;
using global::Sizes;

double elements(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>()); }

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The size of the contracted dimension: the last dimension of this operand.
double common_dimension(const OpCall& call, std::span<const Sizes> inputs, std::string_view operand) {
  const auto& sizes = inputs[call.tensor(operand)];
  return sizes.empty() ? 1 : static_cast<double>(sizes.back());
}

double contracted(const OpCall& call, std::span<const Sizes> inputs) {
  const auto& self = inputs[call.tensor("self")];
  double product = 1;
  for (const auto dim : call.integers("dims_self")) {
    product *= static_cast<double>(
        self[static_cast<std::size_t>(global::wrapped_dim(dim, static_cast<std::int64_t>(self.size())))]);
  }
  return product;
}

/// The operations of a convolution: each value of `output` needs a multiplication with each weight of one output
/// channel.
double convolution_flops(const OpCall& call, std::span<const Sizes> inputs, const Sizes& output) {
  const auto& weight = inputs[call.tensor("weight")];
  const double out_channels = call.flag("transposed") ? static_cast<double>(output.size() > 1 ? output[1] : 1)
                                                      : static_cast<double>(std::max<std::int64_t>(1, weight[0]));
  return 2 * elements(output) * elements(weight) / out_channels;
}

double backward_parts(const OpCall& call) {
  const auto mask = call.integers("output_mask");
  if (mask.size() < 2) return 2;
  return static_cast<double>(mask[0] + mask[1]);
}

double flops_of(const OpCall& call, std::span<const Sizes> inputs, std::span<const Sizes> outputs) {
  const std::string_view op = call.name;
  if (op == "convolution") return convolution_flops(call, inputs, outputs[0]);
  if (op == "convolution_backward") {
    return backward_parts(call) * convolution_flops(call, inputs, inputs[call.tensor("grad_output")]);
  }
  if (op == "mm" || op == "bmm" || op == "matmul" || op == "mv") {
    return 2 * elements(outputs[0]) * common_dimension(call, inputs, "self");
  }
  if (op == "addmm") return 2 * elements(outputs[0]) * common_dimension(call, inputs, "mat1");
  if (op == "baddbmm") return 2 * elements(outputs[0]) * common_dimension(call, inputs, "batch1");
  if (op == "addmv") return 2 * elements(outputs[0]) * common_dimension(call, inputs, "mat");
  if (op == "tensordot") return 2 * elements(outputs[0]) * contracted(call, inputs);
  return 0;
}

/// The number of times that inputs are read: batch norm reads them twice, for the statistics and for the result.
double looks_at_inputs(const OpCall& call) { return call.name.starts_with("native_batch_norm") ? 2 : 1; }

}  // namespace

Sizes largest_part(const global::TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes) {
  Sizes sizes = info.sizes;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (!placements[axis].is_shard()) continue;
    auto& size = sizes[static_cast<std::size_t>(placements[axis].dim)];
    size = (size + mesh_sizes[axis] - 1) / mesh_sizes[axis];
  }
  return sizes;
}

Bytes bytes_of_part(const global::TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes) {
  return {elements(largest_part(info, placements, mesh_sizes)) * info.element_bytes};
}

bool is_view(const OpCall& call) {
  static constexpr std::array<std::string_view, 28> kViews{
      "view",   "_unsafe_view", "_reshape_alias", "t",        "transpose", "permute",          "expand",
      "slice",  "select",       "unsqueeze",      "squeeze",  "alias",     "detach",           "as_strided",
      "split",  "chunk",        "unbind",         "narrow",   "movedim",   "split_with_sizes", "diagonal",
      "unfold", "view_as",      "expand_as",      "swapdims", "flatten",   "unflatten",        "positive"};
  return is_one_of(call.name, kViews);
}

Work work_of(const OpCall& call, std::span<const Sizes> inputs, std::span<const Sizes> outputs) {
  if (is_view(call)) return {.kind = Work::Kind::view};
  Work work{.flops = {flops_of(call, inputs, outputs)}};
  if (work.flops.value > 0) {
    work.kind = call.name.starts_with("convolution") ? Work::Kind::convolution : Work::Kind::matmul;
  }
  const double looks = looks_at_inputs(call);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!call.tensors[i].defined) continue;
    work.touched += looks * Bytes{elements(inputs[i]) * call.tensors[i].element_bytes};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    work.touched += Bytes{elements(outputs[i]) * call.outputs[i].element_bytes};
  }
  return work;
}

Work loading_of(Bytes part) {
  constexpr double kTimesTouched = 4;
  return {.kind = Work::Kind::memory, .flops = {}, .touched = kTimesTouched * part};
}

Work copying_of(Bytes gradient) { return {.kind = Work::Kind::memory, .flops = {}, .touched = 2 * gradient}; }

Work copying_of_step(const global::Step& step, Bytes before, Bytes after) {
  const auto in_front = [](const Placement& placement) { return placement.is_shard() && placement.dim == 0; };
  Bytes copied{};
  if (step.from.is_shard() && step.to.is_replicate()) {  // all_gather
    if (!in_front(step.from)) copied = before + after;
  } else if (step.from.is_shard()) {  // all_to_all
    copied = after;
    if (!in_front(step.to)) copied += before;
  } else if (step.from.is_partial() && step.to.is_shard()) {  // reduce_scatter
    if (!in_front(step.to)) copied = before + after;
  } else {  // an all_reduce into a new tensor, a part of a replicated value, or zeros
    copied = after;
  }
  return {.kind = Work::Kind::memory, .flops = {}, .touched = 2 * copied};
}

std::vector<InnerCollective> inner_collectives(const OpCall& call, std::span<const Placements> inputs,
                                               std::span<const int> mesh_sizes) {
  std::vector<InnerCollective> found;
  const auto each_axis = [&](std::size_t input, auto&& use) {
    for (std::size_t axis = 0; axis < mesh_sizes.size(); ++axis) {
      if (mesh_sizes[axis] > 1 && inputs[input][axis].is_shard()) use(axis, inputs[input][axis].dim);
    }
  };
  const std::string_view op = call.name;
  const auto channels = [&](std::string_view input) { return static_cast<double>(call.info(input).sizes.at(1)); };
  if (op == "native_batch_norm" && call.flag("training")) {
    each_axis(call.tensor("input"), [&](std::size_t axis, int dim) {
      const Bytes gathered{8 * (1 + 2 * channels("input")) * mesh_sizes[axis]};  // in float64
      if (dim != 1) found.push_back({.kind = Collective::all_gather, .axis = axis, .bytes = gathered});
    });
  } else if (op == "native_batch_norm_backward" && call.flag("train")) {
    each_axis(call.tensor("input"), [&](std::size_t axis, int dim) {
      if (dim != 1) found.push_back({.axis = axis, .bytes = {8 * 2 * channels("input")}});
    });
  } else if (op == "_softmax" || op == "_log_softmax" || op == "_softmax_backward_data" ||
             op == "_log_softmax_backward_data") {
    const auto along = global::wrapped_dim(call.integer("dim"), call.tensors[0].dim());
    each_axis(0, [&](std::size_t axis, int dim) {
      if (dim != along) return;
      const auto part = largest_part(call.tensors[0], inputs[0], mesh_sizes);
      const auto rows =
          elements(part) / static_cast<double>(std::max<std::int64_t>(1, part[static_cast<std::size_t>(dim)]));
      const Bytes one{rows * call.tensors[0].element_bytes};
      for (int i = 0; i < (op.ends_with("data") ? 1 : 2); ++i) found.push_back({.axis = axis, .bytes = one});
    });
  } else if (op.starts_with("nll_loss") && op.ends_with("forward") && call.integer("reduction", 1) == 1) {
    each_axis(call.tensor("self"), [&](std::size_t axis, int) { found.push_back({.axis = axis, .bytes = {8}}); });
  } else if (op == "norm" || op == "linalg_vector_norm" || op == "var" || op == "std" || op == "var_mean") {
    each_axis(0, [&](std::size_t axis, int) { found.push_back({.axis = axis, .bytes = {8}}); });
  }
  return found;
}

}  // namespace lockstep::plan
