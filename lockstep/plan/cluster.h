// The cluster that a plan is made for: nodes with devices, and links. Read from YAML; no hardware is needed. Pure.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/foreign_words.h>
#include <lockstep/plan/units.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::plan {

struct Device {
  FlopsPerSecond matmul{50e9};  ///< measured rate of matrix products
  /// The rate at which matrix products reorder their matrices, in addition to the arithmetic; absent: no such cost.
  std::optional<BytesPerSecond> matmul_bandwidth{};
  FlopsPerSecond convolution{40e9};  ///< measured rate of convolutions
  BytesPerSecond memory_bandwidth{8e9};
  Bytes memory{4e9};
  Seconds operator_overhead{4e-6};  ///< overhead of each operator apart from its work
};

struct Link {
  BytesPerSecond bandwidth{1e9};
  Seconds latency{1e-5};
};

/// A cluster of equal nodes. Rank r is on node r / devices_per_node.
struct Cluster {
  std::string name = "default CPU cluster";
  int nodes = 1;
  int devices_per_node = 1;
  Device device{};
  Link intra_node{.bandwidth = {4e9}, .latency = {1e-5}};    ///< link of each device to others of its node
  Link inter_node{.bandwidth = {1.1e9}, .latency = {5e-5}};  ///< link of each node to others; shared by its devices
  double overlap = 0.7;  ///< the fraction of a gradient reduction that does not slow down computation, 0 to 1

  int devices() const { return nodes * devices_per_node; }
};

inline constexpr int kMostDevices = 10'000;

/// Reads a description such as this; keys that are absent keep the value of Cluster's defaults. Rates are per second.
///
///   name: two nodes
///   nodes: 2
///   devices_per_node: 8
///   device: {matmul_flops: 19.5e12, matmul_bandwidth: 1.2e12, convolution_flops: 15e12, memory_bandwidth: 1.5e12,
///            memory: 40e9, operator_overhead: 5e-6}
///   intra_node: {bandwidth: 300e9, latency: 3e-6}
///   inter_node: {bandwidth: 25e9, latency: 1e-5}
///   overlap: 0.9
///
/// Error(config) with file and line for unknown keys, of which `words` are translated, numbers out of range, and more
/// than 10,000 devices.
Cluster read_cluster(const ConfigSource& source, const ForeignWords& words = {});
/// The same from a file. Error(config) when it cannot be read.
Cluster load_cluster(const std::filesystem::path& path, const ForeignWords& words = {});
/// The cluster as YAML for read_cluster(), with six significant digits.
std::string print_cluster(const Cluster& cluster);

/// Factors of a hypothetical cluster, all above 0.
struct WhatIf {
  double network = 1;  ///< bandwidth between nodes
  double intra = 1;    ///< bandwidth within a node
  double latency = 1;  ///< latency of all links
  double memory = 1;   ///< size of the devices' memory
  double compute = 1;  ///< speed of the devices
};
/// The cluster with its values multiplied by these factors. Error(invalid_argument) for a factor that is not above 0.
Cluster scaled(Cluster cluster, const WhatIf& what_if);

/// The cluster for another number of devices: as many equal nodes as are needed, or one smaller node if the devices fit
/// into one. Error(invalid_argument) if the devices do not fill complete nodes.
Cluster resized(Cluster cluster, int devices);

}  // namespace lockstep::plan
