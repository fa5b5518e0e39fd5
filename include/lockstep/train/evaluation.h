// The result of an evaluation of a model in a training run.
#pragma once

#include <cstdint>

namespace lockstep::train {

/// The metrics over the evaluation data of all ranks. Exact: every picture counts once.
struct Evaluation {
  std::int64_t epoch = 0;    ///< epochs finished before the evaluation, including a last one that was cut short
  std::int64_t step = 0;     ///< optimizer steps done before the evaluation
  double accuracy = 0;       ///< top-1: fraction of pictures whose largest logit is that of their label
  double loss = 0;           ///< mean of the configured loss
  std::int64_t samples = 0;  ///< pictures of all ranks
  double seconds = 0;        ///< duration of the evaluation on this rank
};

}  // namespace lockstep::train
