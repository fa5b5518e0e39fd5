#include <lockstep/plan/cost/product_rates.h>

#include <cmath>

namespace lockstep::plan {

ProductRates rates_of(const TimedWork& few, const TimedWork& many) {
  // Two equations, took = work * x + touched * y, by Cramer's rule.
  const double determinant = few.work.value * many.touched.value - many.work.value * few.touched.value;
  const double x = (few.took.value * many.touched.value - many.took.value * few.touched.value) / determinant;
  const double y = (few.work.value * many.took.value - many.work.value * few.took.value) / determinant;
  const FlopsPerSecond plain{many.work.value / many.took.value};
  // A plausible limit: reordering is not most of the time of products with many rows.
  constexpr double kMostReordering = 4;
  const bool believable = x * plain.value * kMostReordering > 1;
  if (!believable || !std::isnormal(x) || !std::isnormal(y) || x < 0 || y < 0) {
    return {.computing = plain, .moving = std::nullopt};
  }
  return {.computing = {1 / x}, .moving = BytesPerSecond{1 / y}};
}

}  // namespace lockstep::plan
