// The task of classification into two classes by one number.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/task.h>

#include <memory>

namespace lockstep::train {

struct BinaryOptions {
  double positive_weight = 1;  ///< of the loss of samples of class 1
};
void describe(ConfigFields& fields, BinaryOptions& options);

/// For a model with one output per sample, its logit: a models::FieldNetwork of `ids` and `weights`, or a
/// models::Network of `features` or `pictures`. The class, 0 or 1, is `targets`, floating, or `labels`, int64, with one
/// number per sample. Loss: the mean of the binary cross entropy. Metric: `accuracy`, the share of samples whose class
/// is more probable than the other. Predicts `probability` of class 1 [N].
std::shared_ptr<Task> make_binary_classification(const BinaryOptions& options);

}  // namespace lockstep::train
