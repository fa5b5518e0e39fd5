// The result of an evaluation of a model in a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace lockstep::train {

/// The metrics over the evaluation data of all ranks. Exact: every sample counts once.
struct Evaluation {
  std::int64_t epoch = 0;  ///< epochs finished before the evaluation, including a last one that was cut short
  std::int64_t step = 0;   ///< optimizer steps done before the evaluation
  double loss = 0;         ///< mean of the task's loss over all samples, or over its items
  /// The task's metrics by name; of the classification of pictures: `accuracy`, the share of pictures whose largest
  /// logit is that of their label.
  std::map<std::string, double, std::less<>> metrics{};
  std::int64_t samples = 0;  ///< of all ranks
  double seconds = 0;        ///< duration of the evaluation on this rank
  std::string shown{};       ///< the task's text about the model, such as a sample; not part of checkpoints
};

}  // namespace lockstep::train
