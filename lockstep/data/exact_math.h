// Logarithm and exponential that use only additions, multiplications and divisions, whose rounding IEEE 754 defines.
// The functions of C libraries differ in the last bit between versions and processors.
#pragma once

namespace lockstep::data {

/// Natural logarithm of a finite number above 0, with an error of some 1e-15 of the result.
double exact_log(double x);

/// e^x; 0 below -700, and e^700 for x above 700.
double exact_exp(double x);

/// log(1 + x) for x >= 0, and -log(1 - x) below: maps counts of any size to a small range.
double signed_log(double x);

}  // namespace lockstep::data
