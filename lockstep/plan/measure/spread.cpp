// Medians of the numbers of repeated cluster measurements, and their spread as a comment and as a warning.
#include <lockstep/plan/measure/spread.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace lockstep::plan {
namespace {

struct Field {
  std::string name;
  std::function<std::optional<double>(Cluster)> get;
  std::function<void(Cluster&, std::optional<double>)> set;
  bool measured = true;  ///< false: free memory, which is not a speed, and changes when other programs start or end
};

template <typename Get>
Field number(std::string name, Get get) {
  return {.name = std::move(name),
          .get = [get](Cluster cluster) { return std::optional(get(cluster)); },
          .set = [get](Cluster& cluster, std::optional<double> value) { get(cluster) = *value; }};
}

std::vector<Field> fields() {
  std::vector<Field> all{
      number("device.matmul_flops", [](Cluster& c) -> double& { return c.device.matmul.value; }),
      {.name = "device.matmul_bandwidth",
       .get =
           [](const Cluster& c) {
             return c.device.matmul_bandwidth ? std::optional(c.device.matmul_bandwidth->value) : std::nullopt;
           },
       .set =
           [](Cluster& c, std::optional<double> value) {
             c.device.matmul_bandwidth = value ? std::optional(BytesPerSecond{*value}) : std::nullopt;
           }},
      number("device.convolution_flops", [](Cluster& c) -> double& { return c.device.convolution.value; }),
      number("device.memory_bandwidth", [](Cluster& c) -> double& { return c.device.memory_bandwidth.value; }),
      number("device.memory", [](Cluster& c) -> double& { return c.device.memory.value; }),
      number("device.operator_overhead", [](Cluster& c) -> double& { return c.device.operator_overhead.value; }),
      number("intra_node.bandwidth", [](Cluster& c) -> double& { return c.intra_node.bandwidth.value; }),
      number("intra_node.latency", [](Cluster& c) -> double& { return c.intra_node.latency.value; }),
      number("inter_node.bandwidth", [](Cluster& c) -> double& { return c.inter_node.bandwidth.value; }),
      number("inter_node.latency", [](Cluster& c) -> double& { return c.inter_node.latency.value; }),
      number("overlap", [](Cluster& c) -> double& { return c.overlap; }),
  };
  for (auto& each : all) each.measured = each.name != "device.memory";
  return all;
}

}  // namespace

RepeatedMeasurement middle_of(const std::vector<Cluster>& measured) {
  RepeatedMeasurement result{.cluster = measured.front(), .numbers = {}};
  for (const auto& field : fields()) {
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
