// Round numbers for the ticks of an axis.
#pragma once

#include <string>
#include <vector>

namespace lockstep::train {

struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;  ///< ascending, within low..high
};

/// An axis that covers low..high with about `wanted` ticks at multiples of 1, 2 or 5 times a power of ten. Without
/// `extend` it ends exactly at low and high; with it, at the ticks around them. Equal ends are moved apart.
Axis make_axis(double low, double high, int wanted, bool extend);

/// An axis of powers of ten that covers low..high, both above 0: its numbers are their exponents.
Axis axis_of_powers(double low, double high);

/// A tick as short text: "0.25", "1500", "20k", "1e-05".
std::string tick_text(double value);

}  // namespace lockstep::train
