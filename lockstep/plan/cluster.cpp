// The reader and the printer of cluster descriptions; and medians of the numbers of repeated cluster measurements, with
// their spread as a comment and as a warning.
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/plan/cluster.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

namespace lockstep::plan {
namespace {

/// The fields of the file as plain numbers.
struct DeviceFields {
  double matmul;
  std::optional<double> matmul_bandwidth;
  double convolution, memory_bandwidth, memory, overhead;
};
struct LinkFields {
  double bandwidth, latency;
};
struct ClusterFields {
  std::string name;
  std::int64_t nodes, devices_per_node;
  DeviceFields device;
  LinkFields intra, inter;
  double overlap;
};

void describe(ConfigFields& fields, DeviceFields& device) {
  fields.field("matmul_flops", device.matmul, above(0), "operations a second that matrix products reach");
  fields.field("matmul_bandwidth", device.matmul_bandwidth, above(0),
               "bytes a second at which products reorder their matrices, beside the arithmetic");
  fields.field("convolution_flops", device.convolution, above(0), "operations a second that convolutions reach");
  fields.field("memory_bandwidth", device.memory_bandwidth, above(0), "bytes a second");
  fields.field("memory", device.memory, above(0), "bytes");
  fields.field("operator_overhead", device.overhead, at_least(0), "seconds that each operator costs beside its work");
}

void describe(ConfigFields& fields, LinkFields& link) {
  fields.field("bandwidth", link.bandwidth, above(0), "bytes a second");
  fields.field("latency", link.latency, at_least(0), "seconds");
}

void describe(ConfigFields& fields, ClusterFields& cluster) {
  fields.field("name", cluster.name, anything(), "its name in messages");
  fields.field("nodes", cluster.nodes, between(1, kMostDevices), "machines, all alike");
  fields.field("devices_per_node", cluster.devices_per_node, between(1, kMostDevices), "devices of each machine");
  fields.section("device", cluster.device, "what one device can do");
  fields.section("intra_node", cluster.intra, "from each device to others of its node");
  fields.section("inter_node", cluster.inter, "from each node to others; its devices share it");
  fields.field("overlap", cluster.overlap, between(0, 1),
               "the share of a gradient reduction that costs the computation beside it nothing");
}

ClusterFields fields_of(const Cluster& cluster) {
  const auto& device = cluster.device;
  return {
      .name = cluster.name,
      .nodes = cluster.nodes,
      .devices_per_node = cluster.devices_per_node,
      .device = {device.matmul.value,
                 device.matmul_bandwidth ? std::optional(device.matmul_bandwidth->value) : std::nullopt,
                 device.convolution.value, device.memory_bandwidth.value, device.memory.value,
                 device.operator_overhead.value},
      .intra = {cluster.intra_node.bandwidth.value, cluster.intra_node.latency.value},
      .inter = {cluster.inter_node.bandwidth.value, cluster.inter_node.latency.value},
      .overlap = cluster.overlap,
  };
}

Cluster cluster_of(const ClusterFields& fields) {
  const auto& device = fields.device;
  return {
      .name = fields.name,
      .nodes = static_cast<int>(fields.nodes),
      .devices_per_node = static_cast<int>(fields.devices_per_node),
      .device = {.matmul = {device.matmul},
                 .matmul_bandwidth =
                     device.matmul_bandwidth ? std::optional(BytesPerSecond{*device.matmul_bandwidth}) : std::nullopt,
                 .convolution = {device.convolution},
                 .memory_bandwidth = {device.memory_bandwidth},
                 .memory = {device.memory},
                 .operator_overhead = {device.overhead}},
      .intra_node = {.bandwidth = {fields.intra.bandwidth}, .latency = {fields.intra.latency}},
      .inter_node = {.bandwidth = {fields.inter.bandwidth}, .latency = {fields.inter.latency}},
      .overlap = fields.overlap,
  };
}

}  // namespace

Cluster read_cluster(const ConfigSource& source, const ForeignWords& words) {
  auto fields = fields_of({});
  read_fields(source.root, "", words, [&](ConfigFields& visited) { describe(visited, fields); });
  if (fields.nodes * fields.devices_per_node > kMostDevices) {
    const auto* nodes = source.root.find("nodes");
    throw Error(
        ErrorKind::config, "cluster",
        fmt::format("{} nodes of {} devices are {}; plans are made for clusters of up to {} devices", fields.nodes,
                    fields.devices_per_node, fields.nodes * fields.devices_per_node, kMostDevices),
        nodes != nullptr ? nodes->position : FilePosition{.file = source.file});
  }
  return cluster_of(fields);
}

Cluster load_cluster(const std::filesystem::path& path, const ForeignWords& words) {
  return read_cluster(load_config(path), words);
}

std::string print_cluster(const Cluster& cluster) { return print_config(fields_of(cluster)); }

Cluster scaled(Cluster cluster, const WhatIf& what_if) {
  const std::array factors{std::pair{"network", what_if.network}, std::pair{"intra", what_if.intra},
                           std::pair{"latency", what_if.latency}, std::pair{"memory", what_if.memory},
                           std::pair{"compute", what_if.compute}};
  for (const auto& [name, factor] : factors) {
    if (!(factor > 0)) {
      fail(ErrorKind::invalid_argument, "cluster", "the factor of {} is {}; it must be above 0", name, factor);
    }
  }
  cluster.inter_node.bandwidth = cluster.inter_node.bandwidth * what_if.network;
  cluster.intra_node.bandwidth = cluster.intra_node.bandwidth * what_if.intra;
  cluster.inter_node.latency = cluster.inter_node.latency * what_if.latency;
  cluster.intra_node.latency = cluster.intra_node.latency * what_if.latency;
  cluster.device.memory = cluster.device.memory * what_if.memory;
  cluster.device.matmul = cluster.device.matmul * what_if.compute;
  cluster.device.convolution = cluster.device.convolution * what_if.compute;
  if (auto& reordering = cluster.device.matmul_bandwidth) reordering = *reordering * what_if.compute;
  return cluster;
}

Cluster resized(Cluster cluster, int devices) {
  if (devices < 1 || devices > kMostDevices) {
    fail(ErrorKind::invalid_argument, "cluster", "plans are made for 1 to {} devices, not {}", kMostDevices, devices);
  }
  if (devices <= cluster.devices_per_node) {
    cluster.nodes = 1;
    cluster.devices_per_node = devices;
  } else if (devices % cluster.devices_per_node == 0) {
    cluster.nodes = devices / cluster.devices_per_node;
  } else {
    fail(ErrorKind::invalid_argument, "cluster",
         "{} devices do not fill nodes of {}; describe other nodes, or make the mesh a multiple of {}", devices,
         cluster.devices_per_node, cluster.devices_per_node);
  }
  return cluster;
}

namespace {

/// A number of the description, by its name in the file.
struct ClusterNumber {
  std::string name;
  std::function<std::optional<double>(Cluster)> get;
  std::function<void(Cluster&, std::optional<double>)> set;
  bool measured = true;  ///< false: free memory, which is not a speed, and changes when other programs start or end
};

template <typename Get>
ClusterNumber cluster_number(std::string name, Get get) {
  return {.name = std::move(name),
          .get = [get](Cluster cluster) { return std::optional(get(cluster)); },
          .set = [get](Cluster& cluster, std::optional<double> value) { get(cluster) = *value; }};
}

std::vector<ClusterNumber> cluster_numbers() {
  std::vector<ClusterNumber> all{
      cluster_number("device.matmul_flops", [](Cluster& c) -> double& { return c.device.matmul.value; }),
      {.name = "device.matmul_bandwidth",
       .get =
           [](const Cluster& c) {
             return c.device.matmul_bandwidth ? std::optional(c.device.matmul_bandwidth->value) : std::nullopt;
           },
       .set =
           [](Cluster& c, std::optional<double> value) {
             c.device.matmul_bandwidth = value ? std::optional(BytesPerSecond{*value}) : std::nullopt;
           }},
      cluster_number("device.convolution_flops", [](Cluster& c) -> double& { return c.device.convolution.value; }),
      cluster_number("device.memory_bandwidth", [](Cluster& c) -> double& { return c.device.memory_bandwidth.value; }),
      cluster_number("device.memory", [](Cluster& c) -> double& { return c.device.memory.value; }),
      cluster_number("device.operator_overhead",
                     [](Cluster& c) -> double& { return c.device.operator_overhead.value; }),
      cluster_number("intra_node.bandwidth", [](Cluster& c) -> double& { return c.intra_node.bandwidth.value; }),
      cluster_number("intra_node.latency", [](Cluster& c) -> double& { return c.intra_node.latency.value; }),
      cluster_number("inter_node.bandwidth", [](Cluster& c) -> double& { return c.inter_node.bandwidth.value; }),
      cluster_number("inter_node.latency", [](Cluster& c) -> double& { return c.inter_node.latency.value; }),
      cluster_number("overlap", [](Cluster& c) -> double& { return c.overlap; }),
  };
  for (auto& each : all) each.measured = each.name != "device.memory";
  return all;
}

}  // namespace

RepeatedMeasurement middle_of(const std::vector<Cluster>& measured) {
  RepeatedMeasurement result{.cluster = measured.front(), .numbers = {}};
  for (const auto& field : cluster_numbers()) {
    std::vector<double> values;
    for (const auto& each : measured) {
      if (const auto value = field.get(each)) values.push_back(*value);
    }
    if (2 * values.size() <= measured.size()) {  // most measurements did not find it
      field.set(result.cluster, std::nullopt);
      continue;
    }
    std::sort(values.begin(), values.end());
    const double middle = values[values.size() / 2];
    field.set(result.cluster, middle);
    const double difference = values.back() - values.front();
    const double relative_to = field.name == "overlap" ? 1 : middle;
    if (!field.measured) continue;
    result.numbers.push_back(
        {.name = field.name, .middle = middle, .spread = relative_to > 0 ? difference / relative_to : 0});
  }
  return result;
}

std::string spread_comment(const RepeatedMeasurement& measurement, std::size_t times) {
  std::string text =
      fmt::format("# Medians of {} measurements. How far these differ, (largest - smallest) / median:\n", times);
  for (const auto& each : measurement.numbers)
    text += fmt::format("#   {:<26} {:.0f} %\n", each.name, 100 * each.spread);
  return text;
}

std::string disturbance(const RepeatedMeasurement& measurement) {
  std::vector<std::string> numbers;
  for (const auto& each : measurement.numbers) {
    if (each.spread > kQuietSpread) numbers.push_back(fmt::format("{} by {:.0f} %", each.name, 100 * each.spread));
  }
  if (numbers.empty()) return {};
  return fmt::format(
      "the measurements differ: {}. Something else used the machine or the link, or the clock changed; plans made "
      "with these numbers may be poor. Measure again with nothing else running, or with more --repeat",
      fmt::join(numbers, ", "));
}

}  // namespace lockstep::plan
