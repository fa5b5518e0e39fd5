// Accuracy and loss over a whole split.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/data/loader.h>
#include <lockstep/train/forward.h>
#include <lockstep/train/reports.h>

namespace lockstep::train {

/// Runs the model in evaluation mode over this rank's share and adds up all ranks' counts (a collective). With a
/// sampler that gives every picture to one rank the result is exact, and the same on every rank and for every number of
/// ranks up to the rounding of the loss's sum. `epoch` and `step` of the result are left at 0. The model is in training
/// mode afterwards.
Evaluation evaluate(const models::Classifier& model, data::Loader& loader, const Group& group,
                    const ForwardOptions& options);

}  // namespace lockstep::train
