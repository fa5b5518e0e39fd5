// The metric `auc`: the area under the ROC curve, exact over all batches and ranks.
#pragma once

#include <lockstep/train/task.h>

namespace lockstep::train {

/// Takes outputs [N] or [N, 1] (logits or probabilities; higher values mean class 1), and targets 0 or 1 of the same
/// size, integers or floating. Equal outputs count half. No value when one class has no sample, NaN when an output is
/// NaN. Keeps 8 bytes of each evaluated sample of all ranks on every rank.
MetricPart auc_part();

}  // namespace lockstep::train
