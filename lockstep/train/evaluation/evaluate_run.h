// A trained run that is put to use: its configuration, with weights from the command line and without training; and its
// evaluation and predictions over all ranks, outside of training. Functions with a group are collectives.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

/// The overrides of the configuration in `path`, if there is one: model.weights=`weights`, no callbacks, and
/// `overrides`. `average`: model.weights_average, which takes the average of the weights in a checkpoint. The keys
/// weights_prefix, weights_rename, weights_except and weights_strict apply to that file. But if `path` names its own
/// weights, the keys in `path` apply to those initial weights, and only the keys in `overrides` count.
std::vector<std::string> measured_overrides(const std::optional<std::filesystem::path>& path,
                                            std::span<const std::string> overrides, const std::string& weights,
                                            bool average = false);

/// The same run as one that does not train, so that neither the length of the training nor a learning rate is missing.
ResolvedRun without_training(ResolvedRun config);

/// Weights of the newest checkpoint, or that of checkpoint.resume. Error(config) when there is none.
NamedTensors checkpoint_weights(const ResolvedRun& config, const Group& group);

/// Evaluates over the test split, like a run of this configuration after training; every sample counts once, on any
/// number of ranks. `weights`: parameters and buffers of the whole model; nullptr: model.weights, or random ones
/// without it. Writes no file. Error(config) when there is no data for the evaluation. Changes process-wide settings
/// like run_training() (run_group.h).
Evaluation evaluate_run(const ResolvedRun& config, const Program& program, const Group& group,
                        const NamedTensors* weights = nullptr);

/// The task's predictions for each sample of the test split, or of `dataset`, in the order of the samples: the same on
/// all ranks, in CPU memory, with the names of the samples. Weights and other arguments as in evaluate_run().
/// Error(data) when predictions of two batches differ in their fields, dtypes or shapes, or do not have one row for
/// each sample. `folder`, unless it is empty, gets the files of single samples (Task::leave_files).
Prediction predict_run(const ResolvedRun& config, const Program& program, const Group& group,
                       const NamedTensors* weights, const std::shared_ptr<const samples::Dataset>& dataset = nullptr,
                       const std::filesystem::path& folder = {});

}  // namespace lockstep::train
