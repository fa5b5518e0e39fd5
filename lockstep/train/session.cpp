#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/progress.h>
#include <lockstep/comm/rejoin.h>
#include <lockstep/train/changes.h>
#include <lockstep/train/freeze.h>
#include <lockstep/train/mesh_config.h>
#include <lockstep/train/metrics.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/runtime.h>
#include <lockstep/train/same_settings.h>
#include <lockstep/train/session.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::train {
namespace {

bool due(std::int64_t every, std::int64_t count) { return every > 0 && count % every == 0; }

}  // namespace

Session::Session(const RunConfig& config, const RunConfig& asked, const Program& program, const Group& group,
                 Console& console, std::optional<InjectedFault>& fault, std::optional<ResumePoint> kept)
    : config_(config),
      group_(group),
      console_(console),
      share_(data_share(config, group)),
      train_data_(load_train_data(config, program, share_.index, share_.count)),
      eval_data_(load_eval_data(config, program, share_.index, share_.count)),
      plan_(make_plan(config, train_data_.sampler.steps_per_epoch())),
      settings_(require_same_settings(run_settings(config, share_.count, train_data_.dataset->size()), group)),
      options_(forward_options(config, choose_device(config.system, group.world()))),
      model_(make_model(config, program, options_.device)),
      owes_save_(kept.has_value()),
      configuration_(recorded_configuration(asked, {.ranks = group.size(),
                                                    .total_steps = plan_.total_steps,
                                                    .has_batch_norm = !model_.module->buffers().empty()})),
      resumed_(kept ? std::move(kept) : find_resume_point(config, group)),
      writer_(config.checkpoint, checkpoint_folder_of(config), group),
      saved_at_(std::chrono::steady_clock::now()),
      recovers_(can_rejoin(group)),
      fault_(fault) {
  if (ends_in_warm_up(plan_)) {
    tell(console_, fmt::format("the warm-up takes {} steps, the whole run {}: the learning rate rises to the end",
                               plan_.schedule.warmup_steps, plan_.total_steps));
  }
  tell_of_shares();
  tell_of_idle_axes();
  restore_weights(owes_save_);
  parallel_ = make_parallel_run(config, model_, group_, options_);
  if (resumed_) {
    parallel_->load_optimizer_state(without_frozen(part_of(resumed_->checkpoint.tensors, "optimizer"), *model_.module));
    restore_generator(resumed_->checkpoint, parallel_->random_stream(), config.system.seed);
    parallel_->load_own(resumed_->checkpoint.tensors);
    unverified_ = resumed_->unverified;
  } else {
    seed_rank(config.system.seed, parallel_->random_stream(), 0);
  }
  resumed_.reset();
  batches_ = train_data_.batches();
}

Session::~Session() = default;

void Session::fault_at(FaultPlace place, std::int64_t step) {
  if (!is_due(fault_, group_.rank(), step, place)) return;
  // Once: a rank may make the step again.
  const auto due = fault_->action == FaultAction::slow ? fault_ : std::exchange(fault_, std::nullopt);
  if (!trigger(due, group_.rank(), step, place)) return;
  const torch::NoGradGuard no_grad;
  model_.module->parameters().front()[0].add_(1);
}

void Session::restore_weights(bool from_memory) {
  if (resumed_) {
    for (const auto& remark : resumed_->remarks) tell(console_, remark);
    const auto& checkpoint = resumed_->checkpoint;
    state_ = checkpoint.state;
    check_changes(from_memory);
    end_epoch_if_whole();  // a state in memory may be of the moment before that
    if (!from_memory) saved_step_ = state_.step;
    tell(console_, fmt::format("{} of {} steps are done{}", state_.step, plan_.total_steps,
                               finished() ? ": nothing is left to train; raise train.epochs or train.steps to train "
                                            "on, or give another system.work_dir to start anew"
                                          : ""));
    load_module_state(*model_.module, part_of(checkpoint.tensors, "model"));
  } else if (config_.model.weights && group_.rank() == 0) {
    // The others get them when the run is made parallel.
    const auto remarks = start_from_weights(model_, config_.model);
    tell(console_, fmt::format("starting from the weights in {}", *config_.model.weights));
    for (const auto& remark : remarks) tell(console_, remark);
  }
  state_.settings = settings_;
  state_.configuration = configuration_;
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
         "on from it, or start anew in another system.work_dir",
         resumed_->origin, state_.step, goal);
  }
  if (changed && finished()) {
    fail(
        ErrorKind::config, "checkpoint.resume",
        "{} is of a finished run: all {} are done, and what has changed since would change nothing. Raise train.epochs "
        "or train.steps to train on with the changes, or start anew in another system.work_dir",
        resumed_->origin, goal);
  }
}

void Session::check_changes(bool from_memory) {
  const auto changes = find_changes(state_, settings_, configuration_);
  require_allowed(changes, config_, resumed_->origin);
  check_length(shapes_result(changes));
  if (from_memory) return;  // processes of one job
  if (state_.configuration.empty()) {
    tell(console_,
         "the checkpoint is of a program that did not note its configuration: only what it did note is compared");
  }
  for (const auto& change : changes) {
    tell(console_, fmt::format("changed since the checkpoint: {}{}", describe(change),
                               change.weight == Weight::shown ? "" : " (allowed by checkpoint.allow_changes)"));
  }
}

// With a batch of all ranks, their number may come to be any.
void Session::tell_of_shares() {
  const auto batch = config_.data.global_batch_size;
  if (!batch) return;
  if (*batch >= share_.count) {
    tell(console_, fmt::format("batches of {} samples for {} rank(s): {}", *batch, share_.count,
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
  tell(console_, fmt::format("batches of {} samples for {} ranks: the last {} have nothing to do; start fewer ranks, "
                             "or raise data.global_batch_size",
                             *batch, share_.count, share_.count - *batch));
}

// A name that is no name of anything else in the configuration, such as a misspelled `data`.
void Session::tell_of_idle_axes() {
  if (!is_global_mode(config_.parallel)) return;
  const auto mesh = mesh_layout(config_.parallel, group_.size());
  for (const auto& axis :
       idle_axes(mesh, whole_plan(config_.parallel, mesh, model_.module->named_parameters().keys()))) {
    tell(console_, fmt::format("nothing is divided along the axis '{}' of parallel.mesh, so its ranks all do the same "
                               "work: the batch is divided along `data`, parameters as parallel.shard says",
                               axis));
  }
}

bool Session::train(const Callbacks& callbacks, const StopSignals& signals) {
  model_.module->train();
  evaluate_if_owed(callbacks);
  if (owes_save_ && state_.step > 0 && save_is_due()) save_now();
  while (!finished()) {
    train_epoch(callbacks, signals);
    if (asked_to_end()) {
      save_now();
      barrier(group_);  // nobody leaves, and makes a launcher end the others, before rank 0 has saved
      return false;
    }
    const bool whole = state_.step_in_epoch == 0;
    const bool evaluates = finished() || (whole && due(config_.train.eval_every, state_.epoch));
    if (evaluates && lacks_evaluation()) evaluate_now(callbacks);
    if (save_is_due()) save_now();
  }
  // A resumed run may have nothing left to train and yet lack the evaluation.
  if (lacks_evaluation()) evaluate_now(callbacks);
  without_ending_for_a_disk([this] { writer_.finish(); });
  for (const auto& callback : callbacks) callback->on_end();
  return true;
}

// Of the weights as they are now, where there is data to evaluate on.
bool Session::lacks_evaluation() const {
  return eval_data_ && (state_.evaluations.empty() || state_.evaluations.back().step != state_.step);
}

bool Session::save_is_due() const {
  const bool whole = state_.step_in_epoch == 0;
  return finished() || time_to_save_ || (whole && due(config_.checkpoint.every_epochs, state_.epoch)) ||
         due(config_.checkpoint.every_steps, state_.step);
}

// After each step. Rank 0's clock decides for all; a checkpoint in parts is complete when no rank writes any more.
void Session::look_after_checkpoints() {
  if (writer_.can_finish_alone()) without_ending_for_a_disk([this] { writer_.finish(); });
  const auto every = std::chrono::duration<double>(config_.checkpoint.every_seconds);
  if (every.count() <= 0 && !writer_.awaits_others()) return;
  const bool overdue = every.count() > 0 && group_.rank() == 0 && std::chrono::steady_clock::now() - saved_at_ >= every;
  auto said = torch::tensor({overdue ? 1 : 0, writer_.is_writing() ? 1 : 0}, torch::kInt);
  all_reduce(said, group_);
  time_to_save_ = said[0].item<int>() > 0;
  if (writer_.awaits_others() && said[1].item<int>() == 0) {
    without_ending_for_a_disk([this] { writer_.finish(); });
  }
}

// A run that was asked to end after the last step of an epoch saved at once, and left the epoch's evaluation to the
// next.
void Session::evaluate_if_owed(const Callbacks& callbacks) {
  if (state_.epoch == 0 || state_.step_in_epoch != 0 || finished() || !due(config_.train.eval_every, state_.epoch)) {
    return;
  }
  if (lacks_evaluation()) evaluate_now(callbacks);
}

void Session::end_epoch_if_whole() {
  if (state_.step_in_epoch != plan_.steps_per_epoch) return;
  ++state_.epoch;
  state_.step_in_epoch = 0;
}

void Session::train_epoch(const Callbacks& callbacks, const StopSignals& signals) {
  EpochReport report{.epoch = state_.epoch + 1, .epochs = plan_.epochs};
  batches_->start(state_.epoch, state_.step_in_epoch * config_.train.accumulate);
  while (state_.step_in_epoch < plan_.steps_per_epoch && !finished()) {
    const auto step = train_step(signals);
    ++report.steps;
    report.samples += step.samples;
    report.seconds += step.seconds;
    for (const auto& callback : callbacks) callback->on_step(step);
    if (asked_to_end()) break;
    look_after_checkpoints();
    const bool in_epoch = state_.step_in_epoch < plan_.steps_per_epoch && !finished();
    if (in_epoch && (time_to_save_ || due(config_.checkpoint.every_steps, state_.step))) save_now();
  }
  end_epoch_if_whole();
  if (asked_to_end()) return;
  for (const auto& callback : callbacks) callback->on_epoch_end(report);
}

// What a step draws by chance depends on nothing but its number and the rank, so that whoever takes a lost rank's place
// draws the same, and all ways to start a run give the same. With recovery, what the forward changes can be put back.
void Session::begin_step() {
  seed_rank(config_.system.seed, parallel_->random_stream(), state_.step);
  if (!recovers_) return;
  in_step_ = true;
  if (config_.parallel.buffers == "local") return;  // the run keeps them in this rank's part
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

// Buffers as of the last step that this rank has completed.
NamedTensors Session::model_before_step() const {
  auto model_state = module_state(*model_.module);
  if (in_step_) {
    for (const auto& [name, buffer] : buffers_) model_state.insert_or_assign(name, buffer);
  }
  return model_state;
}

std::optional<KeptParts> Session::salvage_parts() {
  if (!recovers_ || !parallel_) return std::nullopt;
  auto parts = parallel_->take_shard_parts();
  if (!parts) return std::nullopt;
  auto shared = model_before_step();
  NamedTensors other;
  for (const auto& parameter : parts->layout.parameters) shared.erase(parameter.name);
  if (parts->shards.own.contains(kOwnBuffers)) {
    for (const auto& buffer : model_.module->named_buffers()) other.insert(shared.extract(buffer.key()));
  }
  KeptParts kept{state_, {}, {}, std::move(*parts)};
  add_part(kept.shared, "model", shared);
  if (kept.parts.layout.parameters.empty()) add_part(kept.shared, "optimizer", parallel_->optimizer_state());
  add_part(kept.other, "model", other);
  for (auto* tensors : {&kept.shared, &kept.other}) {
    for (auto& [name, tensor] : *tensors) tensor = tensor.detach();
  }
  return kept;
}

std::optional<Checkpoint> Session::salvage() const {
  if (!recovers_ || !parallel_ || !parallel_->keeps_whole_state()) return std::nullopt;
  Checkpoint checkpoint{state_, {}};
  add_part(checkpoint.tensors, "model", model_before_step());
  add_part(checkpoint.tensors, "optimizer", parallel_->optimizer_state());
  for (auto& [name, tensor] : checkpoint.tensors) tensor = tensor.detach();
  return checkpoint;
}

// The step comes to the same on all ranks that began it with the same. Whoever differs now was wrong, then or before.
// The unverified step stays until all have said that they do not: else what ranks have is compared with it when they
// meet again.
void Session::compare_with_unverified() {
  if (!unverified_ || unverified_->step != state_.step) return;
  const auto own = salvage();
  if (!own) return;
  auto differ = torch::full({1}, sha256_of(own->tensors) == unverified_->sha256 ? 0 : 1, torch::kInt);
  all_reduce(differ, group_, ReduceOp::max);
  if (differ.item<int>() != 0) {
    fail(ErrorKind::peer_lost, "recovery", "made again, step {} did not come out as rank {} had it on all ranks",
         unverified_->step, unverified_->rank);
  }
  tell(console_, fmt::format("step {} came out as rank {} had it", unverified_->step, unverified_->rank));
  unverified_.reset();
}

StepReport Session::train_step(const StopSignals& signals) {
  const auto number = state_.step + 1;
  fault_at(FaultPlace::begin, number);
  begin_step();
  const auto start = std::chrono::steady_clock::now();
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
  std::function<void(FaultPlace)> fault;
  if (fault_) fault = [this, number](FaultPlace place) { fault_at(place, number); };
  const auto losses = parallel_->step({.batches = batches,
                                       .samples = report.samples,
                                       .lr = report.lr,
                                       .want_global_loss = metrics_due(config_.callbacks.metrics_every, report.step),
                                       .signals = &signals,
                                       .epoch = report.epoch,
                                       .step_in_epoch = report.step_in_epoch,
                                       .fault = fault},
                                      *batches_);
  report.local_loss = losses.local;
  report.loss = losses.global;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (report.loss) state_.logged = report;
  ++state_.step;
  ++state_.step_in_epoch;
  in_step_ = false;
  completed_step(group_, state_.step);
  state_.samples += report.samples;
  state_.seconds += report.seconds;
  compare_with_unverified();
  fault_at(FaultPlace::updated, number);
  return report;
}

void Session::evaluate_now(const Callbacks& callbacks) {
  fault_at(FaultPlace::evaluate, state_.step);
  const auto batches = eval_data_->batches();
  auto evaluation = parallel_->evaluate(*batches);
  evaluation.epoch = state_.epoch + (state_.step_in_epoch > 0 ? 1 : 0);
  evaluation.step = state_.step;
  state_.evaluations.push_back(evaluation);
  for (const auto& callback : callbacks) callback->on_evaluation(evaluation);
}

void Session::save_now() {
  if (saved_step_ == state_.step || !saves_checkpoints(config_.checkpoint)) return;
  fault_at(FaultPlace::save, state_.step);
  saved_step_ = state_.step;
  saved_at_ = std::chrono::steady_clock::now();
  time_to_save_ = false;
  without_ending_for_a_disk([this] {
    writer_.save(state_, *parallel_);
    if (finished() || asked_to_end()) writer_.finish();
  });
}

// With recovery the state is in the memory of all ranks, and ending one of them would not make room on the disk. The
// last checkpoint of a run is another matter: nobody would try again.
void Session::without_ending_for_a_disk(const std::function<void()>& save) {
  try {
    save();
  } catch (const Error& error) {
    if (!recovers_ || finished() || asked_to_end() || error.kind() != ErrorKind::io) throw;
    const auto words = fmt::format(
        "no checkpoint after step {}, training goes on without, and the next one is tried when it is due: {}",
        *saved_step_, error.message());
    log_error("{}", words);
    tell(console_, words);
  }
}

}  // namespace lockstep::train
