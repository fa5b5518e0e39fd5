// The evaluation of a model over a whole split.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/reports.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::train {

/// Runs the model in evaluation mode over an epoch of batches. `of_all_ranks` makes the sums of all ranks of this
/// one's, among them `loss` over items and `samples`. With a sampler that gives every sample to one rank the result is
/// exact, and the same on every rank and for every number of ranks up to the rounding of sums that are not integers.
Evaluation evaluate(const Model& model, samples::Batches& batches, const ForwardOptions& options,
                    const std::function<Sums(const Sums&)>& of_all_ranks);

/// Sums as one line of text, and the sum of several such, in their order.
std::string to_text(const Sums& sums);
Sums add_up(const std::vector<std::string>& texts);

}  // namespace lockstep::train
