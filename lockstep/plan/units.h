// Quantities with units (seconds, bytes, ...) for the planner, so that different units cannot be mixed. Pure.
#pragma once

#include <compare>

namespace lockstep::plan {

/// A number of one unit. Sums and comparisons stay within it; products with plain numbers keep it.
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

}  // namespace lockstep::plan
