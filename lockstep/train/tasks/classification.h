// The task of classifying pictures: cross entropy, and accuracy.
#pragma once

#include <lockstep/train/parts.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::train {

enum class LossKind {
  cross_entropy,         ///< libtorch's fused kernels, log_softmax and nll_loss
  cross_entropy_expand,  ///< the same formula built of primitive operations, so that a planner can split each
};

/// Mean over the batch of the cross entropy between logits [N, C] (floating) and labels [N] (int64, 0..C-1), or shares
/// of the classes [N, C] (floating; fewer classes: the others have none), as a scalar that autograd can follow. With
/// smoothing s the target of a picture is 1 - s + s/C for its label and s/C for every other class (Szegedy et al. 2016,
/// section 7). Computed in float32 at least.
///
/// The expanded form is p = softmax(logits) with the row maximum subtracted first, then -mean(sum(target * log p)).
/// A p that underflows is taken as the smallest normal float32, where log p alone would turn 0 * -inf into NaN.
at::Tensor classification_loss(LossKind kind, const at::Tensor& logits, const at::Tensor& labels, double smoothing);

/// The field of a batch that models of models/registry.h take: `features` where there is one, else `pictures`.
const at::Tensor& input_of(const samples::Batch& batch);

/// The losses of Lockstep.
std::vector<LossPart> classification_losses();

/// Loss and `accuracy` of batches with the fields of samples/pictures.h, or `features` for the pictures, for the models
/// of models/registry.h. Predicts `class` int64 [N], its `probability` float32 [N], and `logits` [N, num_classes].
/// Error(config) for a loss.name that is not a part.
std::shared_ptr<Task> classification(const ResolvedRun& run);

}  // namespace lockstep::train
