// Fixed-length series for log and exp (artanh, Taylor) after range reduction, with the same bits on every machine.
#include <lockstep/data/exact_math.h>

#include <algorithm>
#include <cmath>

namespace lockstep::data {
namespace {

constexpr double kLog2 = 0.693147180559945309417232121458;
constexpr double kRootOfHalf = 0.707106781186547524400844362105;

}  // namespace

double exact_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact: it only splits the bits
  if (mantissa < kRootOfHalf) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 artanh((m - 1) / (m + 1)), with an argument of at most 0.172: 13 terms are enough.
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * t * sum + exponent * kLog2;
}

double exact_exp(double x) {
  if (x < -700) return 0;
  const double bounded = std::min(x, 700.0);
  const double whole = std::floor(bounded / kLog2 + 0.5);
  const double rest = bounded - whole * kLog2;  // at most 0.35: 16 terms are enough
  double sum = 1;
  for (int k = 16; k >= 1; --k) sum = 1 + sum * rest / k;
  return std::ldexp(sum, static_cast<int>(whole));
}

double signed_log(double x) { return x < 0 ? -exact_log(1 - x) : exact_log(1 + x); }

}  // namespace lockstep::data
