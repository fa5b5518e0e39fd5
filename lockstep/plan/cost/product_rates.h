// The rates of matrix products, derived from two measurements. Pure.
#pragma once

#include <lockstep/plan/units.h>

#include <optional>

namespace lockstep::plan {

struct TimedWork {
  Flops work{};
  Bytes touched{};
  Seconds took{};
};

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
