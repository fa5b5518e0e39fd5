// The task of predicting numbers.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/task.h>

#include <memory>
#include <string>

namespace lockstep::train {

struct RegressionOptions {
  std::string loss = "mse";  ///< mse, l1, smooth_l1 or bce
};
void describe(ConfigFields& fields, RegressionOptions& options);

/// For models of models/registry.h, the input `features` or `pictures`, and `targets`, floats [N, T] of any T. Loss:
/// the mean over all targets. Metrics: `mae`, the mean absolute error, and `rmse`, the root of the mean squared error,
/// over all targets of all ranks. Predicts `values` [N, T]. Where samples have `target_mean` and `target_deviation`
/// (samples/table.h), the model outputs standardized numbers, and the loss uses these; metrics and predictions have the
/// unit of the targets.
std::shared_ptr<Task> make_regression(const RegressionOptions& options);

}  // namespace lockstep::train
