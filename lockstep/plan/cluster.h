// The cluster that a plan is made for: nodes with devices, and links, in quantities with units (seconds, bytes, ...).
// Read from YAML; no hardware is needed. And several measurements of one cluster: the median of each number, and its
// spread. Pure.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/nearest.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::plan {

/// A number of one unit, so that different units cannot be mixed. Sums and comparisons stay within it; products with
/// plain numbers keep it.
template <typename Unit>
struct Quantity {
  double value = 0;

  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, double factor) { return {a.value * factor}; }
  friend constexpr Quantity operator*(double factor, Quantity a) { return {a.value * factor}; }
  friend constexpr Quantity operator/(Quantity a, double divisor) { return {a.value / divisor}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;  // NOLINT(modernize-use-nullptr): a slip of clang 14
};

using Seconds = Quantity<struct UnitOfTime>;
using Bytes = Quantity<struct UnitOfData>;
using Flops = Quantity<struct UnitOfWork>;  ///< floating point operations; a multiplication with an addition is two
using BytesPerSecond = Quantity<struct UnitOfBandwidth>;
using FlopsPerSecond = Quantity<struct UnitOfSpeed>;

constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) { return {bytes.value / rate.value}; }
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) { return {work.value / rate.value}; }

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

/// One number of the description, as in its YAML: "device.matmul_flops".
struct NumberSpread {
  std::string name;
  double middle = 0;  ///< the median
  double spread = 0;  ///< the largest minus the smallest, as a fraction of the median
};

struct RepeatedMeasurement {
  Cluster cluster;  ///< with the medians
  std::vector<NumberSpread> numbers;
};

/// Measurements that differ by more than this fraction were disturbed.
inline constexpr double kQuietSpread = 0.25;

/// `measured` has at least one cluster; all describe the same devices. The overlap's spread is absolute, as the overlap
/// is itself a fraction.
RepeatedMeasurement middle_of(const std::vector<Cluster>& measured);

/// "# Spread of 3 measurements, (largest - smallest) / median: ..." as comments for the YAML file.
std::string spread_comment(const RepeatedMeasurement& measurement, std::size_t times);

/// The numbers that differ too much, with advice; empty when the machine was idle.
std::string disturbance(const RepeatedMeasurement& measurement);

}  // namespace lockstep::plan
