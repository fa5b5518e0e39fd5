// The computation of an axis's range and ticks, linear or in powers of ten.
#include <lockstep/train/output/axis.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace lockstep::train {
namespace {

double round_step(double raw) {
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10.0 * power;
}

}  // namespace

Axis make_axis(double low, double high, int wanted, bool extend) {
  if (!(high > low)) {
    const double around = low == 0 ? 1.0 : std::abs(low) * 0.1;
    low -= around;
    high += around;
  }
  const double step = round_step((high - low) / wanted);
  constexpr double kSlack = 1e-9;  // a tick that misses the end by rounding only is a tick
  if (extend) {
    low = std::floor(low / step + kSlack) * step;
    high = std::ceil(high / step - kSlack) * step;
  }
  Axis axis{low, high, {}};
  const auto first = static_cast<std::int64_t>(std::ceil(low / step - kSlack));
  const auto last = static_cast<std::int64_t>(std::floor(high / step + kSlack));
  for (auto i = first; i <= last; ++i) axis.ticks.push_back(static_cast<double>(i) * step);
  return axis;
}

Axis axis_of_powers(double low, double high) {
  constexpr double kSlack = 1e-9;
  Axis axis{std::floor(std::log10(low) + kSlack), std::ceil(std::log10(high) - kSlack), {}};
  if (!(axis.high > axis.low)) axis.high = axis.low + 1;
  for (double exponent = axis.low; exponent <= axis.high; ++exponent) axis.ticks.push_back(exponent);
  return axis;
}

std::string tick_text(double value) {
  if (value == 0) return "0";
  if (std::abs(value) >= 10000) return fmt::format("{:.6g}k", value / 1000);
  return fmt::format("{:.6g}", value);
}

}  // namespace lockstep::train
