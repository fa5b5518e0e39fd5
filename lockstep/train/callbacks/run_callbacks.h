// The callbacks of a run: those of the program and of callbacks.use, in the order in which they are called, with names
// for messages and checkpoints; and the metric that callbacks compare evaluations by.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/parts.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {

/// The part of a callback whose constructor takes these options.
template <typename Made, typename Options>
CallbackPart callback_part(std::string name, std::string doc, Options defaults) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .options = PartOptions::of(std::move(defaults)),
          .make = [](const PartOptions& options) { return std::make_unique<Made>(options.as<Options>()); }};
}

/// The callbacks of the program, which are `of_program`, and those that callbacks.use names. Error(config) with the
/// place in the file for unknown names and options, an item that is given twice, the errors of Callback::check, and two
/// callbacks, or a callback and the run, that write to the same path (Callback::own_paths).
Callbacks make_used_callbacks(const ResolvedRun& config, Callbacks of_program = {});

class CallbackPoints {
 public:
  explicit CallbackPoints(Callbacks callbacks);

  /// Calls this function of each callback. An exception is replaced by one that names callback and point. An Error
  /// keeps its kind; an Error about lost ranks is not changed.
  template <typename... Parameters, typename... Arguments>
  void call(std::string_view point, void (Callback::*function)(Parameters...), Arguments&... arguments) const {
    for (const auto& each : callbacks_) {
      try {
        (each.callback.get()->*function)(arguments...);
      } catch (...) {
        rethrow(each.name, point);
      }
    }
  }

  /// The states of all: tensors as "<callback>.<tensor>".
  std::map<std::string, std::string, std::less<>> texts() const;
  NamedTensors tensors() const;
  /// Entries without a callback of that name are ignored.
  void restore(const std::map<std::string, std::string, std::less<>>& texts, const NamedTensors& tensors) const;

 private:
  struct Named {
    std::string name;
    std::unique_ptr<Callback> callback;
  };
  static CallbackState state_of(const Named& each);
  [[noreturn]] static void rethrow(const std::string& name, std::string_view point);

  std::vector<Named> callbacks_;
};

/// The metric of best_checkpoints and early_stopping: "loss" or the name of one of the task's metrics; `mode`: max,
/// min, or auto, which is min for loss, perplexity, mae, mse, rmse and names that contain "error" or "loss", else max.
struct MetricChoice {
  std::string metric = "loss";
  std::string mode = "auto";

  bool wants_max() const;
  /// Error(config) for a metric that no evaluation of this run will have. No error where the names are unknown before
  /// an evaluation: with a task or metrics that do not declare their names.
  void require_possible(const ResolvedRun& config) const;
  /// Error(config) that lists the available metrics when the task has no such metric.
  double of(const Evaluation& evaluation) const;
  /// Whether `value` is better than `than` by more than `min_delta`. NaN is never better, and everything is better than
  /// NaN.
  bool is_better(double value, double than, double min_delta = 0) const;
};

}  // namespace lockstep::train
