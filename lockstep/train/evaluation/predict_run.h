// The predictions of a model for the samples of a data set, over all ranks.
#pragma once

#include <lockstep/train/run_group.h>
#include <lockstep/train/task.h>

#include <filesystem>
#include <memory>

namespace lockstep::train {

/// The task's predictions for each sample of the test split, or of `dataset`, in the order of the samples: the same on
/// all ranks, in CPU memory, with the names of the samples. Weights and other arguments as in evaluate_run().
/// Error(data) when predictions of two batches differ in their fields, dtypes or shapes, or do not have one row for
/// each sample. `folder`, unless it is empty, gets the files of single samples (Task::leave_files).
Prediction predict_run(const RunConfig& config, const Program& program, const Group& group, const NamedTensors* weights,
                       const std::shared_ptr<const samples::Dataset>& dataset = nullptr,
                       const std::filesystem::path& folder = {});

}  // namespace lockstep::train
