// The actions of a session at the points of its callbacks, and for their requests.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/session.h>
#include <lockstep/train/stop_signals.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace lockstep::train {
namespace {

/// While it exists, a module's parameters have these values.
class ReplacedParameters {
 public:
  ReplacedParameters(torch::nn::Module& module, const NamedTensors& values) {
    const torch::NoGradGuard no_grad;
    const auto parameters = module.named_parameters();
    for (const auto& [name, value] : values) {
      const auto* parameter = parameters.find(name);
      if (parameter == nullptr || parameter->sizes() != value.sizes()) {
        fail(ErrorKind::invalid_argument, "evaluate_with", "the model has no parameter {} of that shape", name);
      }
      kept_.emplace_back(*parameter, parameter->detach().clone());
    }
    for (const auto& [name, value] : values) parameters.find(name)->detach().copy_(value);
  }
  ~ReplacedParameters() {
    const torch::NoGradGuard no_grad;
    for (const auto& [parameter, value] : kept_) parameter.detach().copy_(value);
  }
  ReplacedParameters(const ReplacedParameters&) = delete;
  ReplacedParameters& operator=(const ReplacedParameters&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

}  // namespace

void Session::ask_to_stop(std::string reason) {
  if (!asked_.stop) stop_reason_ = std::move(reason);
  asked_.stop = true;
}

NamedTensors Session::callback_tensors() const { return points_ ? points_->tensors() : saved_callbacks_; }

SavedState Session::state_to_save() const {
  auto state = parallel_->state_to_save();
  add_part(state.tensors, kCallbacksPart, callback_tensors());
  return parallel_->with_distant(std::move(state));
}

// Later requests belong to the next agreement.
StepVotes Session::votes(const StopSignals& signals) {
  auto own = std::exchange(asked_, {});
  own.end = signals.noted().has_value();
  const auto every = std::chrono::duration<double>(config_.checkpoint.every_seconds);
  own.overdue = every.count() > 0 && group_.rank() == 0 && std::chrono::steady_clock::now() - saved_at_ >= every;
  own.writing = writer_.is_writing();
  return own;
}

void Session::at(StepPoint point) {
  RunView& view = *this;
  switch (point) {
    case StepPoint::first_forward: return fault_at(FaultPlace::forward, state_.step + 1);
    case StepPoint::last_forward: return;
    case StepPoint::sending: return fault_at(FaultPlace::backward, state_.step + 1);
    case StepPoint::reduced: return fault_at(FaultPlace::reduced, state_.step + 1);
    case StepPoint::before_backward: return points_->call("before_backward", &Callback::before_backward, view);
    case StepPoint::after_backward: return points_->call("after_backward", &Callback::after_backward, view);
    case StepPoint::before_update: return points_->call("before_update", &Callback::before_update, view);
    case StepPoint::after_update: return points_->call("after_update", &Callback::after_update, view);
  }
}

// Used at the end of an epoch and at evaluations, because no exchange of gradients follows at once.
void Session::agree_on_requests() {
  Vote vote(std::exchange(asked_, {}), {}, group_);
  vote.wait();
  clock_.split_waits();
  auto agreed = vote.agreed();
  agreed.end = ends_;
  follow(agreed);
}

void Session::follow(const StepVotes& agreed) {
  ends_ = agreed.end;
  if (agreed.save) time_to_save_ = true;
  if (agreed.evaluate) time_to_evaluate_ = true;
  if (agreed.stop && !ends_ && state_.stopped.empty()) stop_now();
}

// All ranks use the reason of the first rank that has one.
void Session::stop_now() {
  for (const auto& reason : gather_texts(stop_reason_, group_)) {
    if (state_.stopped.empty()) state_.stopped = reason;
  }
  if (state_.stopped.empty()) state_.stopped = "requested by a callback";
  tell(fmt::format("stopped after step {}: {}", state_.step, state_.stopped));
}

std::int64_t Session::sink_size() const {
  if (!config_.train.dataset_sink_mode) return 1;
  return config_.train.sink_size > 0 ? config_.train.sink_size : plan_.steps_per_epoch;
}

// Whether the current step is the last of a sink. A sink of a whole epoch ends with the epoch.
bool Session::ends_sink() const {
  const auto number = state_.step + 1;
  const bool ends_epoch = state_.step_in_epoch + 1 == plan_.steps_per_epoch;
  if (config_.train.dataset_sink_mode && config_.train.sink_size < 0) return ends_epoch || number == plan_.total_steps;
  return number % sink_size() == 0 || number == plan_.total_steps;
}

// For callbacks, a sink is one step: its last one, with the samples and seconds of all its steps.
StepReport Session::of_sink(StepReport step) const {
  if (!sink_) return step;
  step.steps += sink_->steps;
  step.samples += sink_->samples;
  step.seconds += sink_->seconds;
  return step;
}

void Session::report_step(StepReport step) {
  step = of_sink(step);
  const bool whole = step.step == plan_.total_steps || finished() || asked_to_end() || step.step % sink_size() == 0;
  const bool by_epochs = config_.train.dataset_sink_mode && config_.train.sink_size < 0;
  const bool ends = by_epochs ? step.step_in_epoch == plan_.steps_per_epoch || finished() || asked_to_end() : whole;
  if (!ends) {
    sink_ = step;
    return;
  }
  sink_.reset();
  RunView& view = *this;
  points_->call("after_step", &Callback::after_step, view, step);
}

// After each step, on the status page.
void Session::show_step(const StepReport& step) {
  auto& shown = clock_.shown();
  shown.total_steps = plan_.total_steps;
  shown.epoch = step.epoch;
  shown.samples += step.samples;
  // With metrics, the loss of all ranks at their steps; else that of this rank.
  const auto& loss = config_.callbacks.metrics_every > 0 ? step.loss : step.local_loss;
  if (loss) clock_.set_metric("loss", step.step, *loss);
  clock_.show(TimePart::compute);
}

// A checkpoint that is still being written is not shown.
void Session::note_saved() {
  if (saved_step_ && !lacks_checkpoint_ && !writer_.is_under_way()) clock_.shown().saved_step = saved_step_;
}

// The time since the last call.
double Session::take_seconds() {
  const auto now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now - std::exchange(counted_, now)).count();
}

// The time of callbacks since the last step. If no step follows at once, it must not count as a step's time.
double Session::take_seconds_of_callbacks() {
  const double seconds = take_seconds();
  state_.seconds += seconds;
  return seconds;
}

void Session::evaluate_now() {
  const auto before = clock_.turn_to(TimePart::evaluate);
  fault_at(FaultPlace::evaluate, state_.step);
  seed_rank(config_.system.seed, parallel_->random_stream(), state_.step);  // as in begin_step
  time_to_evaluate_ = false;
  RunView& view = *this;
  points_->call("before_evaluation", &Callback::before_evaluation, view);
  Evaluation evaluation;
  {
    const ReplacedParameters replaced(*model_.module, std::exchange(evaluated_, {}));
    const auto batches = eval_data_->batches(options_.device);
    evaluation = parallel_->evaluate(*batches);
    tell_of_left_out(*eval_data_, *batches, "evaluation");
  }
  evaluation.epoch = state_.epoch + (state_.step_in_epoch > 0 ? 1 : 0);
  evaluation.step = state_.step;
  evaluation.weights = std::exchange(evaluated_name_, {});
  if (group_.rank() == 0) evaluation.pictures = model_.task->pictures();
  state_.evaluations.push_back(evaluation);
  state_.evaluations.back().pictures.clear();
  points_->call("after_evaluation", &Callback::after_evaluation, view, evaluation);
  agree_on_requests();
  clock_.set_metric("eval_loss", state_.step, evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) clock_.set_metric("eval_" + name, state_.step, value);
  clock_.turn_to(before);
}

void Session::save_now() {
  if (saved_step_ == state_.step || !saves_checkpoints(config_.checkpoint)) {
    time_to_save_ = false;
    return;
  }
  const auto before = clock_.turn_to(TimePart::save);
  fault_at(FaultPlace::save, state_.step);
  saved_step_ = state_.step;
  saved_at_ = std::chrono::steady_clock::now();
  time_to_save_ = false;
  RunView& view = *this;
  points_->call("before_save", &Callback::before_save, view);
  lacks_checkpoint_ = false;
  state_.times = clock_.divide().parts;
  tolerate_full_disk([this] {
    state_.callbacks = points_->texts();
    writer_.save(state_.step, to_json(state_), state_to_save());
    if (finished() || asked_to_end()) writer_.finish();
  });
  points_->call("after_save", &Callback::after_save, view);
  note_saved();
  clock_.turn_to(before);
}

std::filesystem::path Session::save_checkpoint(const std::filesystem::path& folder) {
  const auto before = clock_.turn_to(TimePart::save);
  state_.times = clock_.divide().parts;
  CheckpointWriter writer({.keep = std::numeric_limits<std::int64_t>::max()}, folder, everyone_);
  state_.callbacks = points_->texts();
  writer.save(state_.step, to_json(state_), state_to_save());
  writer.finish();
  clock_.turn_to(before);
  return checkpoint_path(folder, state_.step);
}

}  // namespace lockstep::train
