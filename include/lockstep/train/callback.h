// The interface of callbacks: objects that are called at each point of a run, read its state, and may request a stop, a
// checkpoint or an evaluation; and the reports of steps, epochs and evaluations that they get.
#pragma once

#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep {
class Group;
namespace samples {
class Dataset;
}
}  // namespace lockstep

namespace lockstep::train {

// Reports of steps, epochs and evaluations, as values for callbacks and programs.

/// A picture about a model. A plain value.
struct ShownPicture {
  std::string name{};  ///< of its file, without an ending, and of its curve in TensorBoard
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> pixels{};  ///< red, green, blue; row by row, height * width * 3
};

/// Replaces `file` atomically by the picture as PNG. Error(invalid_argument) unless both sides are from 1 to 65535 and
/// there are height * width * 3 pixels; Error(io) naming the file. Thread-safe for different files.
void write_png(const std::filesystem::path& file, const ShownPicture& picture);

// The result of an evaluation of a model in a training run.

/// The metrics over the evaluation data of all ranks. Exact: every sample counts once.
struct Evaluation {
  std::int64_t epoch = 0;  ///< epochs finished before the evaluation, including a last one that was cut short
  std::int64_t step = 0;   ///< optimizer steps done before the evaluation
  double loss = 0;         ///< mean of the task's loss over all samples, or over its items
  /// The task's metrics by name; of the classification of pictures: `accuracy`, the share of pictures whose largest
  /// logit is that of their label.
  std::map<std::string, double, std::less<>> metrics{};
  std::int64_t samples = 0;  ///< of all ranks
  double seconds = 0;        ///< duration of the evaluation on this rank
  std::string shown{};       ///< the task's text about the model, such as a sample; not part of checkpoints
  /// The task's pictures about the model, on rank 0; in callbacks only.
  std::vector<ShownPicture> pictures{};
  std::string weights{};  ///< a name of the weights that were evaluated, "the average of the weights (ema)"; empty: the
                          ///< model's own
};

/// One optimizer step. Epochs and steps count from 1.
struct StepReport {
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;  ///< of the whole run, the last one perhaps cut short
  std::int64_t step_in_epoch = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t step = 0;  ///< of the whole run, resumed parts included
  std::int64_t total_steps = 0;
  std::optional<double> local_loss =
      std::nullopt;  ///< mean over this rank's samples; none when it had no sample in this step
  /// Mean over all ranks' samples: at steps for which metrics are written, and at all other steps if it is free of
  /// cost. Only with parallel.server.consistency some samples may be missing.
  std::optional<double> loss = std::nullopt;
  double lr = 0;
  bool skipped = false;      ///< gradients overflowed, so nothing was updated (loss_scaler)
  std::int64_t samples = 0;  ///< samples of all ranks
  double seconds = 0;  ///< since the previous step or the start of the epoch: waiting for data and callbacks included
  std::int64_t steps = 1;  ///< number of steps that `samples` and `seconds` cover: several with train.dataset_sink_mode
};

/// Whether an action with this period in steps is due with this report; never for 0.
inline bool is_due(std::int64_t every, const StepReport& report) {
  return every > 0 && report.step / every > (report.step - report.steps) / every;
}

struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;
  std::int64_t steps = 0;    ///< made in this epoch by this process, so fewer after a resume
  std::int64_t samples = 0;  ///< samples of all ranks in those steps
  double seconds = 0;        ///< of those steps, with their callbacks: no evaluation, no checkpoint
};

// Callbacks.

/// The view of a run for its callbacks. Valid as long as the run; called on the training thread.
class RunView {
 public:
  virtual ~RunView() = default;

  virtual const ResolvedRun& config() const = 0;
  virtual const Group& group() const = 0;
  /// The module that is trained. In parallel.mode semi_auto and auto its tensors are global (docs/global.md). A
  /// callback that changes it on some ranks only ends the run: replicas must stay equal.
  virtual torch::nn::Module& model() const = 0;

  virtual std::int64_t step() const = 0;  ///< optimizer steps done, of the whole run
  virtual std::int64_t total_steps() const = 0;
  virtual std::int64_t epoch() const = 0;  ///< epochs finished
  virtual double lr() const = 0;           ///< of the current step, or of the last one
  /// Mean loss over this rank's samples in the last step; none before the first, and without samples.
  virtual std::optional<double> loss() const = 0;
  virtual const std::vector<Evaluation>& evaluations() const = 0;  ///< all of the run, in order
  /// The last step with a line by callbacks.metrics_every, for files that continue after a resume.
  virtual const std::optional<StepReport>& logged() const = 0;

  virtual const samples::Dataset& training_data() const = 0;
  /// nullptr: the run has no such data, and makes no evaluations.
  virtual const samples::Dataset* evaluation_data() const = 0;

  /// Requests: any rank may make one at any point, and all ranks execute it. A request before the backward pass of a
  /// step is executed after that step; a later request after the next step. A request at an evaluation, at the end of
  /// an epoch or before the run is executed at once. Requests are sent with the gradients, without additional messages.
  /// A stop evaluates and saves like the end of a run; `reason` is shown and in result.json ("stopped").
  virtual void ask_to_stop(std::string reason) = 0;
  virtual void ask_to_save() = 0;
  virtual void ask_to_evaluate() = 0;

  /// In before_evaluation on all ranks: these parameters replace the model's until the end of the evaluation. `name` is
  /// shown with its result (Evaluation::weights).
  virtual void evaluate_with(NamedTensors parameters, std::string name = "weights of a callback") = 0;

  /// Collectives. A checkpoint of the current state in this folder, from which any run can resume; and the parameters
  /// and buffers of the whole model.
  virtual std::filesystem::path save_checkpoint(const std::filesystem::path& folder) = 0;
  virtual NamedTensors weights() const = 0;

  /// A line for people: to the log and the console of this rank.
  virtual void tell(std::string_view line) const = 0;
};

/// The state of a callback in checkpoints.
struct CallbackState {
  std::string text;      ///< such as JSON; empty: none
  NamedTensors tensors;  ///< in parallel.mode semi_auto and auto they may be global
};

/// A file or a folder that only one callback writes.
struct OwnPath {
  std::filesystem::path path;  ///< in system.work_dir, unless it is an absolute path
  std::string option{};        ///< the option that sets the path, such as `file`; empty: no option
};

/// Called on the training thread of each rank that has the callback, in the order of priorities. An exception ends the
/// run on all ranks, with the callback's name and the point.
class Callback {
 public:
  virtual ~Callback() = default;

  /// For messages and for its state in checkpoints; by default the name of its class.
  virtual std::string name() const;

  /// Callbacks with smaller numbers are called first; equal ones in the order in which they were given.
  virtual int priority() const { return kNormal; }
  static constexpr int kFirst = 10, kEarly = 30, kNormal = 50, kLate = 70, kLast = 90;

  /// Error(config) if the options contradict the configuration. Called before the run, for callbacks.use also when a
  /// configuration is read (--dry-run).
  virtual void check(const ResolvedRun&) const {}
  /// The outputs. A run in which two callbacks, or a callback and the run itself, write to the same path is rejected
  /// when `check` is called.
  virtual std::vector<OwnPath> own_paths() const { return {}; }

  virtual void before_run(RunView&) {}
  /// At the end of a run, also after a stop by a callback; not after a signal, because such a run continues later.
  virtual void after_run(RunView&) {}
  virtual void before_epoch(RunView&) {}
  virtual void after_epoch(RunView&, const EpochReport&) {}
  /// With train.dataset_sink_mode once for all steps of a sink.
  virtual void before_step(RunView&) {}
  virtual void after_step(RunView&, const StepReport&) {}
  /// Around the backward pass of a step, with train.accumulate that of its last batch. Afterwards the gradients are
  /// those of all ranks, the same on each, before train.clip_norm.
  virtual void before_backward(RunView&) {}
  virtual void after_backward(RunView&) {}
  /// Around the optimizer's step. RunView::step() counts it from after_step on.
  virtual void before_update(RunView&) {}
  virtual void after_update(RunView&) {}
  virtual void before_evaluation(RunView&) {}
  virtual void after_evaluation(RunView&, const Evaluation&) {}
  /// Around a checkpoint of the run. With checkpoint.async the write may still be in progress afterwards.
  virtual void before_save(RunView&) {}
  virtual void after_save(RunView&) {}

  /// The state is the same on all ranks, and changes in before_run, after_update, after_epoch and after_evaluation
  /// only: then a run that is resumed, or continues after a loss, equals an uninterrupted run. `restore` is called
  /// before before_run if there is a state.
  virtual CallbackState state() const;
  virtual void restore(const CallbackState&) {}
};

using Callbacks = std::vector<std::unique_ptr<Callback>>;

}  // namespace lockstep::train
