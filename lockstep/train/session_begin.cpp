// The beginning of a session: the state it goes on from, and what people should know of it.
#include <lockstep/base/error.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/session.h>

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::train {
namespace {

// What a callback has stopped goes on when the run is to be another: with other callbacks, or longer.
bool may_go_on(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes, [](const Change& change) {
    return change.key.starts_with("callbacks.") || change.key.starts_with("train.");
  });
}

}  // namespace

// All but the tensors of a state, which are loaded when ranks have divided them.
void Session::take_weights_or_state(bool from_memory) {
  if (resumed_) {
    for (const auto& remark : resumed_->remarks) train::tell(console_, remark);
    state_ = resumed_->state;
    if (!from_memory && may_go_on(find_changes(state_, settings_, configuration_, config_))) state_.stopped.clear();
    check_changes(from_memory);
    end_epoch_if_whole();  // a state in memory may be of the moment before that
    if (!from_memory) saved_step_ = state_.step;
    train::tell(console_, fmt::format("{} of {} steps are done{}", state_.step, plan_.total_steps, why_finished()));
  } else if (group_.rank() == 0) {
    // The others get the weights when the run is made parallel.
    for (const auto& remark : first_weights(model_, config_.model)) train::tell(console_, remark);
  }
  state_.settings = settings_;
  state_.configuration = configuration_;
}

std::string Session::why_finished() const {
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

// Of what is left to do.
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
        "the checkpoint is of a program that did not note its configuration: only what it did note is compared");
  }
  for (const auto& change : changes) {
    train::tell(console_, fmt::format("changed since the checkpoint: {}{}", describe(change),
                                      change.weight == Weight::shown ? "" : " (allowed by checkpoint.allow_changes)"));
  }
}

// With a batch of all ranks, their number may come to be any.
void Session::tell_of_shares() {
  const auto batch = config_.data.global_batch_size;
  if (!batch) return;
  if (*batch >= share_.count) {
    train::tell(console_,
                fmt::format("batches of {} samples for {} rank(s): {}", *batch, share_.count,
                            *batch % share_.count == 0 ? fmt::format("{} each", *batch / share_.count)
                                                       : fmt::format("{} each, one more on the first {}",
                                                                     *batch / share_.count, *batch % share_.count)));
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

// A name that is not a name of anything else in the configuration, such as a misspelled `data`.
void Session::tell_of_idle_axes() {
  if (!is_global_mode(config_.parallel)) return;
  const auto mesh = mesh_layout(config_.parallel, group_.size());
  for (const auto& axis : idle_axes(config_.parallel, mesh,
                                    whole_plan(config_.parallel, mesh, model_.module->named_parameters().keys()))) {
    train::tell(console_,
                fmt::format("nothing is divided along the axis '{}' of parallel.mesh, so its ranks all do the same "
                            "work: the batch is divided along `data`, parameters as parallel.shard says",
                            axis));
  }
}

// Known after some steps.
void Session::tell_of_recording() {
  if (!config_.train.cuda_graph || told_of_recording_) return;
  const auto words = parallel_->recording();
  if (words) train::tell(console_, *words);
  told_of_recording_ = words.has_value();
}

}  // namespace lockstep::train
