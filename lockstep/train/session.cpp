// The training loop of a rank: epochs and steps, evaluations and saves when due; and what recovery keeps: buffers of
// before a step, the state after a loss of ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/optimizer/gradient_scaling.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/session.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::train {
namespace {

bool due(std::int64_t every, std::int64_t count) { return every > 0 && count % every == 0; }

}  // namespace

Session::Session(const ResolvedRun& config, const ResolvedRun& asked, const Program& program, const Group& group,
                 Console& console, std::optional<InjectedFault>& fault, KeptTimes& times,
                 std::optional<ResumePoint> kept, std::optional<TablePlace> tables)
    : config_(config),
      group_(group),
      tables_(std::move(tables)),
      everyone_(tables_ ? tables_->everyone : group_),
      console_(console),
      clock_(times, group_, !is_served_mode(config.parallel) || !most_ahead(config.parallel.server),
             config.system.work_dir),
      share_(data_share(config, group)),
      train_data_(load_train_data(config, program, share_.index, share_.count)),
      eval_data_(load_eval_data(config, program, share_.index, share_.count)),
      plan_(run_length_of(config, train_data_.sampler.steps_per_epoch())),
      settings_(require_same_settings(run_settings(config, share_.count, train_data_.dataset->size()), group)),
      options_(forward_options(config, choose_device(config, group))),
      model_(make_model(config, program, options_.device)),
      owes_save_(kept.has_value()),
      configuration_(recorded_configuration(asked, {.ranks = group.size(),
                                                    .total_steps = plan_.total_steps,
                                                    .has_batch_norm = !model_.module->buffers().empty()})),
      resumed_(kept ? std::move(kept) : find_resume_point(config, everyone_)),
      writer_({.keep = config.checkpoint.keep, .async = config.checkpoint.async}, checkpoint_folder_of(config),
              everyone_),
      saved_at_(std::chrono::steady_clock::now()),
      recovers_(can_rejoin(group)),
      fault_(fault) {
  if (!owes_save_) {  // a run that continues from memory has reported it
    tell_of_run();
    for (const auto& line : train_data_.reports) console_.line(line);
    if (eval_data_) {
      for (const auto& line : eval_data_->reports) {
        // Remarks about data that both splits read are reported once.
        if (std::ranges::find(train_data_.reports, line) == train_data_.reports.end()) console_.line(line);
      }
    }
  }
  if (ends_in_warm_up(plan_)) {
    train::tell(console_,
                fmt::format("the warm-up takes {} steps, the whole run {}: the learning rate rises to the end",
                            plan_.schedule.warmup_steps, plan_.total_steps));
  }
  // Mistakes in the data of evaluations are reported now, and not after the first epoch.
  const bool begins = !resumed_;
  if (eval_data_ && begins) eval_data_->try_first_batch();
  tell_of_shares();
  tell_of_idle_axes();
  take_weights_or_state(owes_save_);
  if (tables_) tables_->step = state_.step;
  tell_of_memory(program);
  parallel_ = make_parallel_run(config, model_, group_, options_, tables_);
  if (begins) try_evaluation();
  if (resumed_) {
    parallel_->load_state(resumed_->tensors);
    saved_callbacks_ = resumed_->tensors.read_part(kCallbacksPart);
  }
  resumed_.reset();
  batches_ = timed(train_data_.batches(options_.device), clock_);
}

// Gradients are in a group's memory; a program's own module outlives the group.
Session::~Session() { model_.module->zero_grad(/*set_to_none=*/true); }

void Session::fault_at(FaultPlace place, std::int64_t step) {
  if (!is_due(fault_, group_.rank(), step, place)) return;
  // Only once: a rank may repeat the step.
  const auto due = fault_->action == FaultAction::slow ? fault_ : std::exchange(fault_, std::nullopt);
  if (!trigger(due, group_.rank(), step, place)) return;
  const torch::NoGradGuard no_grad;
  model_.module->parameters().front()[0].add_(1);
}

bool Session::train(Callbacks callbacks, const StopSignals& signals) {
  points_ = std::make_unique<CallbackPoints>(std::move(callbacks));
  points_->restore(state_.callbacks, saved_callbacks_);
  saved_callbacks_.clear();
  model_.module->train();
  clock_.go_on(state_.step);
  RunView& view = *this;
  points_->call("before_run", &Callback::before_run, view);
  agree_on_requests();
  evaluate_if_owed();
  if (owes_save_ && state_.step > 0 && save_is_due()) save_now();
  while (!finished()) {
    train_epoch(signals);
    if (asked_to_end()) {
      save_now();
      barrier(group_);  // no rank exits, and makes a launcher end the other ranks, before rank 0 has saved
      return false;
    }
    const bool whole = state_.step_in_epoch == 0;
    const bool evaluates = finished() || time_to_evaluate_ || (whole && due(config_.train.eval_every, state_.epoch));
    if (evaluates && lacks_evaluation()) evaluate_now();
    if (save_is_due()) save_now();
  }
  // A resumed run may have no steps left and still lack the evaluation.
  if (lacks_evaluation()) evaluate_now();
  clock_.turn_to(TimePart::save);
  tolerate_full_disk([this] { writer_.finish_run(); });
  note_saved();
  clock_.turn_to(TimePart::other);
  points_->call("after_run", &Callback::after_run, view);
  return true;
}

// Evaluates the current weights, if there is data for evaluations.
bool Session::lacks_evaluation() const {
  return eval_data_ && (state_.evaluations.empty() || state_.evaluations.back().step != state_.step);
}

bool Session::save_is_due() const {
  const bool whole = state_.step_in_epoch == 0;
  return finished() || time_to_save_ || (whole && due(config_.checkpoint.every_epochs, state_.epoch)) ||
         due(config_.checkpoint.every_steps, state_.step);
}

// After each step. A checkpoint is complete when no rank is still writing.
void Session::look_after_checkpoints() {
  if (!agreed_) return;
  if (agreed_->overdue) time_to_save_ = true;
  if (writer_.is_under_way() && !agreed_->writing) {
    const auto before = clock_.turn_to(TimePart::save);
    tolerate_full_disk([this] { writer_.finish(); });
    note_saved();
    clock_.turn_to(before);
  }
}

// A run that got a stop signal in the last step of an epoch saved at once, and left the epoch's evaluation to the
// resumed run.
void Session::evaluate_if_owed() {
  if (state_.epoch == 0 || state_.step_in_epoch != 0 || finished() || !due(config_.train.eval_every, state_.epoch)) {
    return;
  }
  if (lacks_evaluation()) evaluate_now();
}

void Session::end_epoch_if_whole() {
  if (state_.step_in_epoch != plan_.steps_per_epoch) return;
  ++state_.epoch;
  state_.step_in_epoch = 0;
}

void Session::train_epoch(const StopSignals& signals) {
  EpochReport report{.epoch = state_.epoch + 1, .epochs = plan_.epochs};
  batches_->start(state_.epoch, state_.step_in_epoch * config_.train.accumulate);
  RunView& view = *this;
  take_seconds();
  if (state_.step_in_epoch == 0) points_->call("before_epoch", &Callback::before_epoch, view);
  while (state_.step_in_epoch < plan_.steps_per_epoch && !finished()) {
    if (!sink_) points_->call("before_step", &Callback::before_step, view);
    const auto step = train_step(signals);
    ++report.steps;
    report.samples += step.samples;
    report.seconds += step.seconds;
    report_step(step);
    if (clock_.is_full()) clock_.split_waits();
    if (asked_to_end()) break;
    look_after_checkpoints();
    const bool in_epoch = state_.step_in_epoch < plan_.steps_per_epoch && !finished();
    const bool evaluates = in_epoch && time_to_evaluate_ && eval_data_;
    if (!evaluates && !(in_epoch && (time_to_save_ || due(config_.checkpoint.every_steps, state_.step)))) continue;
    report.seconds += take_seconds_of_callbacks();
    if (evaluates) evaluate_now();
    if (time_to_save_ || due(config_.checkpoint.every_steps, state_.step)) save_now();
    take_seconds();
  }
  report.seconds += take_seconds_of_callbacks();
  const bool whole = state_.step_in_epoch == plan_.steps_per_epoch;
  end_epoch_if_whole();
  tell_of_left_out(train_data_, *batches_, "training");
  if (asked_to_end()) return;
  if (whole || finished()) points_->call("after_epoch", &Callback::after_epoch, view, report);
  agree_on_requests();
}

// Random numbers of a step depend only on its number and the rank. So the replacement of a lost rank draws the same
// numbers, and all ways to start a run have the same result. With recovery, buffers that the forward changes can be
// restored.
void Session::begin_step() {
  seed_rank(config_.system.seed, parallel_->random_stream(), state_.step);
  if (!recovers_) return;
  in_step_ = true;
  if (config_.parallel.buffers == "local") return;  // the run stores them in this rank's part
  const torch::NoGradGuard no_grad;
  for (const auto& buffer : model_.module->named_buffers()) {
    auto& copy = buffers_[buffer.key()];
    if (copy.defined()) {
      copy.copy_(buffer.value());
    } else {
      copy = buffer.value().clone();
    }
  }
}

// The buffers after the last step that this rank has completed.
NamedTensors Session::model_before_step() const {
  auto model_state = module_state(*model_.module);
  if (in_step_) {
    for (const auto& [name, buffer] : buffers_) model_state.insert_or_assign(name, buffer);
  }
  return model_state;
}

std::optional<KeptState> Session::salvage() {
  if (!recovers_ || !parallel_) return std::nullopt;
  auto parts = parallel_->take_parts();
  if (!parts && !parallel_->keeps_whole_state()) return std::nullopt;
  auto state = state_;
  if (points_) state.callbacks = points_->texts();
  KeptState kept{.step = state.step,
                 .epoch = state.epoch,
                 .evaluations = std::ssize(state.evaluations),
                 .record = to_json(state),
                 .shared = {}};
  add_part(kept.shared, "model", model_before_step());
  if (!parts || parts->divided.empty()) add_part(kept.shared, "optimizer", parallel_->optimizer_state());
  add_part(kept.shared, kCallbacksPart, callback_tensors());
  if (parts) {
    for (const auto& [name, form] : parts->divided) kept.shared.erase(name);
    if (parts->last.own.contains(kOwnBuffers)) {
      for (const auto& buffer : model_.module->named_buffers()) {
        kept.unshared.insert(kept.shared.extract("model." + buffer.key()));
      }
    }
    kept.parts = std::move(parts);
  }
  for (auto* tensors : {&kept.shared, &kept.unshared}) {
    for (auto& [name, tensor] : *tensors) tensor = tensor.detach();
  }
  return kept;
}

StepReport Session::train_step(const StopSignals& signals) {
  const auto number = state_.step + 1;
  clock_.begin_step(number);
  fault_at(FaultPlace::begin, number);
  begin_step();
  StepReport report{.epoch = state_.epoch + 1,
                    .epochs = plan_.epochs,
                    .step_in_epoch = state_.step_in_epoch + 1,
                    .steps_per_epoch = plan_.steps_per_epoch,
                    .step = state_.step + 1,
                    .total_steps = plan_.total_steps,
                    .lr = learning_rate(plan_.schedule, state_.step)};
  const auto first = state_.step_in_epoch * config_.train.accumulate;
  const auto batches = std::min(config_.train.accumulate, plan_.batches_per_epoch - first);
  for (auto i = first; i < first + batches; ++i) report.samples += train_data_.sampler.global_batch_size(i);
  lr_ = report.lr;
  const bool wants_loss = ends_sink() && is_due(config_.callbacks.metrics_every, of_sink(report));
  const auto losses = parallel_->step({.batches = batches,
                                       .samples = report.samples,
                                       .lr = report.lr,
                                       .loss_scale = loss_scale(config_.loss_scaler, state_.loss_scale),
                                       .want_global_loss = wants_loss,
                                       .want_losses = ends_sink(),
                                       .votes = [&] { return votes(signals); },
                                       .at = [this](StepPoint point) { at(point); },
                                       .watches_sending = fault_.has_value(),
                                       .epoch = report.epoch,
                                       .step_in_epoch = report.step_in_epoch,
                                       .inspect = inspection()},
                                      *batches_);
  report.local_loss = loss_ = losses.local;
  report.loss = losses.global;
  inspected_ = true;
  report.skipped = losses.overflow;
  report.seconds = take_seconds();
  clock_.complete_step(counted_);
  if (wants_loss && report.loss) state_.logged = of_sink(report);
  note_overflow(losses.overflow);
  ++state_.step;
  ++state_.step_in_epoch;
  in_step_ = false;
  completed_step(group_, state_.step);
  show_step(report);
  state_.samples += report.samples;
  state_.seconds += report.seconds;
  tell_of_recording();
  agreed_ = losses.agreed;
  if (agreed_) follow(*agreed_);
  fault_at(FaultPlace::updated, number);
  return report;
}

// Checks the first loss of this session.
std::function<void(const at::Tensor&)> Session::inspection() {
  if (inspected_) return {};
  return [this](const at::Tensor& loss) {
    const auto samples = train_data_.sampler.global_batch_size(state_.step_in_epoch * config_.train.accumulate);
    const auto strays = describe_stray_tensors(loss, *model_.module,
                                               is_global_mode(config_.parallel) ? samples : samples / share_.count);
    if (!strays.empty()) train::tell(console_, "warning: " + strays);
  };
}

void Session::note_overflow(bool overflow) {
  const auto scale = loss_scale(config_.loss_scaler, state_.loss_scale);
  state_.loss_scale = after_step(config_.loss_scaler, state_.loss_scale, overflow);
  if (!overflow) return;
  log_info("step {} is skipped: gradients overflowed with a loss scale of {}, the next is {}", state_.step + 1, *scale,
           state_.loss_scale.value);
}

// The same number on all ranks, because several ranks may have the same share of the samples.
void Session::tell_of_left_out(const RankData& data, const samples::Batches& batches, std::string_view what) {
  if (!data.dataset->leaves_out_errors()) return;
  auto count = torch::full({1}, batches.left_out(), torch::kLong);
  all_reduce(count, group_);
  const auto left_out = count.item<std::int64_t>() * share_.count / group_.size();
  if (left_out == 0) return;
  train::tell(
      console_,
      fmt::format("{}: {} of {} samples could not be used and were left out (data.on_error is skip); the ranks' "
                  "logs name them",
                  what, left_out, data.dataset->size()));
}

// An end of the run would not free space on the disk, and would lose the state in memory: steps, or the result, which
// has its own folder. All ranks have the same error.
void Session::tolerate_full_disk(const std::function<void()>& save) {
  try {
    save();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io) throw;
    lacks_checkpoint_ = true;
    const auto words =
        fmt::format("warning: no checkpoint after step {}, {}: {}", *saved_step_,
                    asked_to_end() ? "and the run ends as requested"
                    : finished()   ? "the run has its result without it"
                                   : "training goes on without it, and the next one is tried when it is due",
                    error.message());
    log_error("{}", words);
    train::tell(console_, words);
  }
}

}  // namespace lockstep::train
