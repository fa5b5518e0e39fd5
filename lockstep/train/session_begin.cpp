// The beginning of a session: the state from which it continues, and remarks about it for users.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/planned_run.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/session.h>

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::train {
namespace {

// A run that a callback has stopped continues if the new run is different: with other callbacks, or longer.
bool may_go_on(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes, [](const Change& change) {
    return change.key.starts_with("callbacks.") || change.key.starts_with("train.");
  });
}

// A run is not traced if its whole state is small compared to the memory: a trace takes a second for a large model.
bool may_be_too_large(const torch::nn::Module& module, int ranks, std::uint64_t available) {
  constexpr double kStates = 4;  // parameters, gradients, and two of an optimizer
  constexpr double kShare = 32;
  double bytes = 0;
  for (const auto& parameter : module.parameters()) bytes += static_cast<double>(parameter.nbytes());
  return kStates * bytes * ranks > static_cast<double>(available) / kShare;
}

/// Models and tasks of Lockstep can be traced; users' code may not support tensors without memory.
bool is_shipped(const ResolvedRun& config, const Program& program) {
  if (!program.is_configured || !config.plugins.empty()) return false;
  const auto& shipped = *shared_shipped_parts();
  return find_part(shipped.models, config.model.name) != nullptr && config.model.name != "torchscript" &&
         (!has_task(config) || find_part(shipped.tasks, config.task.name) != nullptr);
}

/// "11,689,512"
std::string with_separators(std::int64_t number) {
  auto digits = std::to_string(number);
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

/// Only the first batch of a split.
class FirstBatch final : public samples::Batches {
 public:
  explicit FirstBatch(std::unique_ptr<samples::Batches> all) : all_(std::move(all)) {}
  void start(std::int64_t epoch, std::int64_t step) override { all_->start(epoch, step); }
  std::optional<samples::Batch> next() override {
    if (std::exchange(taken_, true)) return std::nullopt;
    return all_->next();
  }

 private:
  std::unique_ptr<samples::Batches> all_;
  bool taken_ = false;
};

}  // namespace

// Checked on rank 0's machine, before the run: when memory is exhausted, the kernel kills the process, and no error can
// be reported.
void Session::tell_of_memory(const Program& program) {
  const int ranks = std::max(1, group_.world().local_size);
  const auto available = available_memory();
  if (group_.rank() != 0 || options_.device.is_cuda() || is_global_mode(config_.parallel) || tables_ ||
      !is_shipped(config_, program) || !may_be_too_large(*model_.module, ranks, available)) {
    return;
  }
  const auto samples = (global_batch_size() + share_.count - 1) / share_.count;
  try {
    const auto needed = memory_of_step(config_, program, train_data_.dataset->example(), samples);
    const auto words = why_too_large(needed, ranks, samples, available);
    if (!words.empty()) train::tell(console_, words);
  } catch (const Error& error) {
    log_debug("the memory of the first step is not known: {}", error.what());
  }
}

// A mistake in a metric is reported now, and not after the first epoch. Skipped for tables on servers, which would get
// rows by this trial.
void Session::try_evaluation() {
  if (!eval_data_ || tables_) return;
  auto loading = eval_data_->loading;
  loading.workers = 0;
  loading.prefetch = 1;
  FirstBatch first(eval_data_->dataset->batches(eval_data_->dataset, eval_data_->sampler, loading));
  parallel_->evaluate(first, EvaluationPurpose::trial);
}

// Restores a state without its tensors, which are loaded after they are divided over ranks.
void Session::take_weights_or_state(bool from_memory) {
  if (resumed_) {
    for (const auto& remark : resumed_->remarks) train::tell(console_, remark);
    state_ = parse_run_state(resumed_->record);
    if (!from_memory && may_go_on(find_changes(state_, settings_, configuration_, config_))) state_.stopped.clear();
    check_changes(from_memory);
    end_epoch_if_whole();  // a state in memory may be from before that
    if (!from_memory) saved_step_ = state_.step;
    train::tell(console_, fmt::format("{} of {} steps are done{}", state_.step, plan_.total_steps, why_finished()));
  } else if (group_.rank() == 0) {
    // Other ranks get the weights when the run is made parallel.
    for (const auto& remark : first_weights(model_, config_)) train::tell(console_, remark);
  }
  state_.settings = settings_;
  state_.configuration = configuration_;
}

// Without recovery, the ranks of a new run have nothing to agree on.
void Session::join_times(std::int64_t completed) {
  note_saved();
  if (recovers_ || state_.step > 0) clock_.join(state_.times, state_.step > 0 ? completed : 0);
}

std::string Session::why_finished() const {
  if (state_.stopped.starts_with("early_stopping")) {
    // The callback uses all evaluations of the run, so that with only more epochs it would stop the run again at once.
    return fmt::format(
        ", and the run was stopped ({}): nothing is left to train; give early_stopping a larger patience in "
        "callbacks.use, or leave it out there, to train on; a longer train.epochs alone trains nothing",
        state_.stopped);
  }
  if (!state_.stopped.empty()) {
    return fmt::format(
        ", and a callback has stopped the run ({}): give other callbacks, or raise train.epochs or "
        "train.steps to train on",
        state_.stopped);
  }
  if (!finished()) return "";
  return fmt::format(
      ": nothing is left to train; raise train.epochs or train.steps to train on, or give {} to start from the "
      "beginning",
      another_folder(config_));
}

// The remaining steps.
void Session::check_length(bool changed) const {
  const auto goal = fmt::format("{} steps ({})", plan_.total_steps,
                                config_.train.steps == plan_.total_steps
                                    ? fmt::format("train.steps={}", plan_.total_steps)
                                    : fmt::format("train.epochs={} of {} steps", plan_.epochs, plan_.steps_per_epoch));
  if (state_.step > plan_.total_steps) {
    fail(ErrorKind::config, "checkpoint.resume",
         "{} is of a run that has done {} steps, more than the {} of this one. Raise train.epochs or train.steps to go "
         "on from it, or start from the beginning in {}",
         resumed_->origin, state_.step, goal, another_folder(config_));
  }
  if (changed && finished()) {
    fail(
        ErrorKind::config, "checkpoint.resume",
        "{} is of a finished run: all {} are done, and what has changed since would change nothing. Raise train.epochs "
        "or train.steps to train on with the changes, or start from the beginning in {}",
        resumed_->origin, goal, another_folder(config_));
  }
}

void Session::check_changes(bool from_memory) {
  const auto changes = find_changes(state_, settings_, configuration_, config_);
  require_allowed(changes, config_, resumed_->origin);
  check_length(shapes_result(changes));
  if (from_memory) return;  // processes of one job
  if (state_.configuration.empty()) {
    train::tell(
        console_,
        "the checkpoint is of a program that did not record its configuration: only what it recorded is compared");
  }
  for (const auto& change : changes) {
    train::tell(console_, fmt::format("changed since the checkpoint: {}{}", describe(change),
                                      change.weight == Weight::shown ? "" : " (allowed by checkpoint.allow_changes)"));
  }
}

// A short description of the model, the data and the length of the run.
void Session::tell_of_run() {
  std::int64_t numbers = 0;
  for (const auto& parameter : model_.module->parameters()) numbers += parameter.numel();
  train::tell(
      console_,
      fmt::format("{} with {} parameters on {}: {} samples to train on{}, {} steps of {} samples, {} an epoch",
                  config_.model.name, with_separators(numbers), config_.data.name,
                  with_separators(train_data_.dataset->size()),
                  eval_data_ ? fmt::format(" and {} to evaluate on", with_separators(eval_data_->dataset->size())) : "",
                  with_separators(plan_.total_steps), global_batch_size() * config_.train.accumulate,
                  with_separators(plan_.steps_per_epoch)));
  const auto classes = std::ssize(train_data_.dataset->classes());
  if (classes == 0 || config_.has_own_model || has_task(config_) || config_.model.num_classes <= classes) return;
  train::tell(console_,
              fmt::format("model.num_classes is {}, and {} has {} classes: the other outputs of the model are "
                          "of no class",
                          config_.model.num_classes, config_.data.name, classes));
}

// With a global batch, the number of ranks may change to any number.
void Session::tell_of_shares() {
  const auto batch = config_.data.global_batch_size;
  if (!batch) return;
  if (*batch >= share_.count) {
    train::tell(
        console_,
        fmt::format("batches of {} samples in {} part{}: {}", *batch, share_.count, share_.count == 1 ? "" : "s",
                    *batch % share_.count == 0 ? fmt::format("{} each", *batch / share_.count)
                                               : fmt::format("{} each, one more on the first {}", *batch / share_.count,
                                                             *batch % share_.count)));
    return;
  }
  if (config_.parallel.buffers == "local" && !model_.module->buffers().empty()) {
    fail(ErrorKind::config, "data.global_batch_size",
         "is {}, so that {} of {} ranks have no samples, and with parallel.buffers local their batch norm statistics "
         "would count; start fewer ranks, raise it, or set parallel.buffers to broadcast",
         *batch, share_.count - *batch, share_.count);
  }
  train::tell(console_,
              fmt::format("batches of {} samples for {} ranks: the last {} have nothing to do; start fewer ranks, "
                          "or raise data.global_batch_size",
                          *batch, share_.count, share_.count - *batch));
}

// A name that occurs nowhere else in the configuration, such as a misspelled `data`.
void Session::tell_of_idle_axes() {
  if (!is_global_mode(config_.parallel)) return;
  const auto mesh = mesh_layout(config_.parallel, group_.size());
  for (const auto& axis :
       idle_axes(config_.parallel, mesh, whole_plan(config_.parallel, mesh, names_in(*model_.module)))) {
    train::tell(console_,
                fmt::format("nothing is divided along the axis '{}' of parallel.mesh, so its ranks all do the same "
                            "work: the batch is divided along `data`, and parameters by parallel.shard",
                            axis));
  }
}

// Only available after some steps.
void Session::tell_of_recording() {
  if (!config_.train.cuda_graph || told_of_recording_) return;
  const auto words = parallel_->recording();
  if (words) train::tell(console_, *words);
  told_of_recording_ = words.has_value();
}

}  // namespace lockstep::train
