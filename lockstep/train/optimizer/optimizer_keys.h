// Keys that several optimizers have.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>

#include <vector>

namespace lockstep::train {

inline constexpr double kMostOptimizerRate = 1e6;  // a larger rate would overflow float32 within some steps

inline void momentum_key(ConfigFields& fields, double& momentum) {
  fields.field("momentum", momentum, or_default(from_to_below(0, 1)), "share of the last update; null: the default");
}

inline void eps_key(ConfigFields& fields, double& eps) {
  fields.field("eps", eps, {.low = 0, .high = kMostOptimizerRate, .low_excluded = true}, "added to the denominator");
}

inline void betas_key(ConfigFields& fields, std::vector<double>& betas) {
  fields.field("betas", betas, items(2, from_to_below(0, 1)), "decay of the two moments");
}

inline void adapt_1d_key(ConfigFields& fields, bool& adapt_1d) {
  fields.field("adapt_1d", adapt_1d, anything(),
               "false: parameters of one dimension are updated without the trust ratio");
}

/// A file always gives two numbers, but a program may give another count.
inline void require_two_betas(const std::vector<double>& betas) {
  if (betas.size() == 2) return;
  fail(ErrorKind::config, "config", "optimizer.betas must hold 2 numbers, it holds {}", betas.size());
}

}  // namespace lockstep::train
