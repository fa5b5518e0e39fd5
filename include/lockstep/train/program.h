// The parts of a training run that are code: model, task, data, callbacks. The configuration defines the rest.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace lockstep::train {

/// The model of a run: a function that makes it, or an existing module.
class ModelSource {
 public:
  ModelSource() = default;

  /// A function () -> std::shared_ptr of a module. Weights are drawn from libtorch's generator, which is seeded with
  /// system.seed.
  template <typename Make>
  requires std::is_invocable_r_v < std::shared_ptr<torch::nn::Module>,
  const Make& > ModelSource(Make make) : make_(std::move(make)) {}

  /// A module, std::shared_ptr or a TORCH_MODULE's holder, which has the trained weights afterwards. For parallel.mode
  /// data_parallel and stand_alone, because the other modes replace the module's tensors, or plan before they exist.
  template <typename Net>
  ModelSource(std::shared_ptr<Net> module) : is_module_(true) {
    if (module) make_ = [module = std::move(module)] { return module; };
  }
  template <typename Net>
  ModelSource(const torch::nn::ModuleHolder<Net>& holder) : ModelSource(holder.ptr()) {}

  explicit operator bool() const { return static_cast<bool>(make_); }
  std::shared_ptr<torch::nn::Module> operator()() const { return make_(); }
  bool is_module() const { return is_module_; }

 private:
  std::function<std::shared_ptr<torch::nn::Module>()> make_;
  bool is_module_ = false;
};

/// The data of a run: a function that loads a split, or existing data sets.
class DataSource {
 public:
  DataSource() = default;

  /// A function (data::Split) -> std::shared_ptr of a data set. Null for the test split: there are no evaluations.
  template <typename Load>
  requires std::is_invocable_v<const Load&, data::Split> DataSource(Load load) : load_(std::move(load)) {}

  DataSource(std::shared_ptr<const samples::Dataset> train, std::shared_ptr<const samples::Dataset> test = nullptr);

  explicit operator bool() const { return static_cast<bool>(load_); }
  std::shared_ptr<const samples::Dataset> operator()(data::Split split) const { return load_(split); }

 private:
  std::function<std::shared_ptr<const samples::Dataset>(data::Split)> load_;
};

/// The parts of a run. Those that are empty come from the configuration (complete_program()). A plain value. Its
/// functions are called on the training thread of each rank, possibly several times in a process (the planner makes a
/// model without memory; a rank that continues after a loss makes a new model).
struct Program {
  std::string name = "own";  ///< of the model, in results and checkpoints

  ModelSource model = {};

  std::shared_ptr<Task> task = nullptr;  ///< see make_task() and supervised() (task.h) for loss functions

  DataSource data = {};

  /// Makes the optimizer of these parameters: torch::optim's SGD, Adam (without amsgrad), AdamW (likewise), RMSprop or
  /// Adagrad, or a class derived of one of them. Empty: the section `optimizer` of the configuration. Its learning rate
  /// is the one before the schedule, unless optimizer.lr is given; rates of further parameter groups keep their ratio
  /// to that of the first.
  OptimizerFactory optimizer = {};

  /// A batch of one sample, with valid fields, shapes and dtypes, and arbitrary values; empty: the training data's
  /// example(). Reads no data, so that plans can be made without data.
  std::function<samples::Batch()> example = {};

  /// Makes further callbacks of this rank; empty: none.
  std::function<Callbacks(int rank)> callbacks = {};

  /// One line about each split, for --dry-run; empty: none.
  std::function<std::string()> describe_data = {};

  /// Its model and data are those that the configuration names: configured_program() sets it.
  bool is_configured = false;
};

/// The program of a configuration that names its model and data: pictures, classified, or parts (parts.h).
/// Error(config) when evaluation's transforms make other pictures than training's.
Program configured_program(const ResolvedRun& config);

/// `run` with what such a program brings: its model and data and, if it makes the optimizer, that optimizer's settings
/// and the factory (set_own_optimizer()); and with the keys that parallel.wrapper sets. Errors of that function, and
/// Error(config) for a wrapper that contradicts parallel.mode.
ResolvedRun resolved_for(const Program& program, ResolvedRun run);

/// The defaults changed by a YAML text, for a program with these parts, and then by `overrides`
/// ("train.epochs=3") as load_run_config() does. Errors as that, with the lines of the text.
ResolvedRun parse_run_config(const std::string& yaml, const Program& program = {},
                             std::span<const std::string> overrides = {});

/// The program with its empty parts from a run that resolved_for() made. Error(config) naming what is missing
/// if the program has only some of model, task and data, and the others cannot be made without them.
Program complete_program(Program program, const ResolvedRun& config);

}  // namespace lockstep::train
