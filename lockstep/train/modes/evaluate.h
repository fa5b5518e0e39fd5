// The evaluation of a model over a whole split.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/modes/forward.h>

#include <lockstep/comm/group.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::train {

/// The conversion of this rank's measurements to those of all ranks: collectives, or the identity if batches are of all
/// ranks.
struct OfAllRanks {
  std::function<Sums(const Sums&)> sums;
  std::function<Rows(const Rows&)> rows;
};

/// Runs the model in evaluation mode over an epoch of batches. `of_all_ranks` is called with sums, among them `loss`
/// over items and `samples`, and then with rows. With a sampler that gives every sample to one rank the result is
/// exact, and the same on every rank and for every number of ranks up to the rounding of sums that are not integers. A
/// trial does not call Task::show, and a metric may report that there is too little data for it.
Evaluation evaluate(const Model& model, samples::Batches& batches, const ForwardOptions& options,
                    const OfAllRanks& of_all_ranks, EvaluationPurpose purpose = EvaluationPurpose::result);

/// Sums as one line of text, and the sum of several such lines, in their order.
std::string to_text(const Sums& sums);
Sums add_up(const std::vector<std::string>& texts);

/// The rows of all ranks, concatenated in their order; a rank may lack names that other ranks have. A collective.
/// Error(mismatch) when ranks have different row sizes or dtypes under one name.
Rows gather_rows(const Rows& own, const Group& group);

}  // namespace lockstep::train
