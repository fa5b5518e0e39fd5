// Logarithm and exponential of additions, multiplications and divisions alone, which IEEE 754 rounds in one way. The
// functions of C libraries differ in the last bit between versions and processors.
#pragma once

namespace lockstep::data {

/// Natural logarithm of a finite number above 0, with an error of some 1e-15 of the result.
double exact_log(double x);

/// e^x; 0 below -700, and as of 700 above it.
double exact_exp(double x);

/// log(1 + x) for x >= 0, and -log(1 - x) below: counts of any size in one range.
double signed_log(double x);

}  // namespace lockstep::data
