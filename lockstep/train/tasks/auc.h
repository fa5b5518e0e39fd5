// The metric `auc`: the area under the ROC curve, exact over all batches and ranks.
#pragma once

#include <lockstep/train/task.h>

namespace lockstep::train {

/// Of outputs [N] or [N, 1], the higher the more probable is class 1 (logits or probabilities), and targets 0 or 1 of
/// as many numbers, whole or floating. Equal outputs count half. No value when one class has no sample, NaN when an
/// output is NaN. Keeps 8 bytes of each evaluated sample of all ranks on every rank.
MetricPart auc_part();

}  // namespace lockstep::train
