// The parts of a training run that are code: model, task, data, callbacks. Its configuration says the rest.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/config.h>
#include <lockstep/train/task.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// A plain value. Its functions are called on the training thread of each rank, perhaps several times in a process
/// (the planner makes a model without memory; a rank that goes on after a loss makes a new one).
struct Program {
  std::string name = "own";  ///< of the model, in results and checkpoints

  /// Makes the model. Weights are drawn from libtorch's generator, which is seeded with system.seed.
  std::function<std::shared_ptr<torch::nn::Module>()> model;

  std::shared_ptr<Task> task;

  /// Loads a split. Null for the test split: there are no evaluations.
  std::function<std::shared_ptr<const samples::Dataset>(data::Split)> data;

  /// A batch of one sample, of which only fields, shapes and dtypes count; empty: the training data's example(). Reads
  /// no data where plans are made without it.
  std::function<samples::Batch()> example = {};

  /// Makes further callbacks of this rank; empty: none.
  std::function<Callbacks(int rank)> callbacks = {};

  /// One line about each split, for --dry-run; empty: none.
  std::function<std::string()> describe_data = {};
};

/// The program of a configuration that names its model and data: pictures, classified, or parts (parts.h).
/// Error(config) when evaluation's transforms make other pictures than training's.
Program configured_program(const RunConfig& config);

}  // namespace lockstep::train
