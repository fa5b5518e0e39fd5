// The result of an evaluation of a model in a training run.
#pragma once

#include <cstdint>

namespace lockstep::train {

/// Exact over all ranks: every picture counts once.
struct Evaluation {
  std::int64_t epoch = 0;    ///< epochs finished when it was made, a last one cut short included
  std::int64_t step = 0;     ///< optimizer steps done when it was made
  double accuracy = 0;       ///< share of pictures whose largest logit is at their label
  double loss = 0;           ///< mean, of the configured loss
  std::int64_t samples = 0;  ///< pictures of all ranks
  double seconds = 0;        ///< of the evaluation, on this rank
};

}  // namespace lockstep::train
