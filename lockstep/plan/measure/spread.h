// Several measurements of one cluster: the median of each number, and its spread. Pure.
#pragma once

#include <lockstep/plan/cluster.h>

#include <string>
#include <vector>

namespace lockstep::plan {

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
