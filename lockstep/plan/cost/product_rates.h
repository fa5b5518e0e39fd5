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
  std::optional<BytesPerSecond> moving;  ///< absent where time grows as fast as the work
};

/// Products take work / computing + touched / moving: libraries bring matrices into an order of their own first, which
/// is most of the time where a batch is small and nothing where it is large. `few` and `many` are the same products of
/// few and of many rows. Where they do not differ as that says (a disturbed measurement), the rate of `many`.
ProductRates rates_of(const TimedWork& few, const TimedWork& many);

}  // namespace lockstep::plan
