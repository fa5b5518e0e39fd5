// One rank's part of a run: data, model, optimizer, and the loop over them.
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/checkpoint_writer.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/console.h>
#include <lockstep/train/forward.h>
#include <lockstep/train/parallel_run.h>
#include <lockstep/train/plan.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resume.h>
#include <lockstep/train/run_data.h>
#include <lockstep/train/run_state.h>
#include <lockstep/train/shard_parts.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::train {

class Session {
 public:
  /// Loads the data, builds the model, and continues from `kept`, a state that was in memory, or else from a checkpoint
  /// as configured. A collective, like `train`. `asked` is the configuration before planning: the next run is
  /// compared with it. Error(config), on all ranks, when this run may not continue from that checkpoint (changes.h), or
  /// no steps are left to do under this configuration.
  /// `fault`, which outlives this, is reset when it has happened: it does not happen again in another Session.
  Session(const RunConfig& config, const RunConfig& asked, const Program& program, const Group& group, Console& console,
          std::optional<InjectedFault>& fault, std::optional<ResumePoint> kept = std::nullopt);
  ~Session();

  /// Trains to the end of the plan, with evaluations and checkpoints during and after it. False when it ended early:
  /// after a step in which `signals` of any rank had recorded a signal, with only a checkpoint.
  bool train(const Callbacks& callbacks, const StopSignals& signals);

  /// The state from which this rank can continue in another Session after a collective has failed: as of the last step
  /// that this rank has completed, with tensors that share the memory of this session's. nullopt when no state is kept
  /// (no recovery), or no rank has all of it (see ParallelRun::keeps_whole_state).
  std::optional<Checkpoint> salvage() const;

  /// The same where a rank has only a part. Moves it out: call it once, and nothing after it.
  std::optional<KeptParts> salvage_parts();

  /// The expected result of a repeated step, until all ranks are known to have it.
  const std::optional<UnverifiedStep>& unverified() const { return unverified_; }

  const RunState& state() const { return state_; }
  const RunPlan& plan() const { return plan_; }
  const c10::Device& device() const { return options_.device; }
  /// Samples of a full batch of all ranks.
  std::int64_t global_batch_size() const { return global_batch_size_of(config_.data, share_.count); }
  /// Parameters and buffers of the whole model. A collective.
  NamedTensors model_state() const { return parallel_->model_state(); }

 private:
  NamedTensors model_before_step() const;
  void restore_weights(bool from_memory);
  void check_changes(bool from_memory);
  void check_length(bool changed) const;
  void tell_of_shares();
  void tell_of_idle_axes();
  void begin_step();
  void fault_at(FaultPlace place, std::int64_t step);
  void compare_with_unverified();
  bool save_is_due() const;
  void look_after_checkpoints();
  void without_ending_for_a_disk(const std::function<void()>& save);
  void end_epoch_if_whole();
  void train_epoch(const Callbacks& callbacks, const StopSignals& signals);
  StepReport train_step(const StopSignals& signals);
  bool asked_to_end() const { return parallel_->asked_to_end(); }
  bool lacks_evaluation() const;
  void evaluate_if_owed(const Callbacks& callbacks);
  void evaluate_now(const Callbacks& callbacks);
  void save_now();
  bool finished() const { return state_.step >= plan_.total_steps; }

  const RunConfig& config_;
  Group group_;
  Console& console_;
  DataShare share_;
  RankData train_data_;
  std::optional<RankData> eval_data_;
  RunPlan plan_;
  Settings settings_;
  ForwardOptions options_;
  Model model_;
  bool owes_save_;  ///< whether the rank of the state in memory may have had a checkpoint to save
  Settings configuration_;
  std::optional<ResumePoint> resumed_;
  RunState state_;
  std::optional<std::int64_t> saved_step_;  ///< that of the newest checkpoint
  CheckpointWriter writer_;
  std::chrono::steady_clock::time_point saved_at_;  ///< when that was begun, or this session
  bool time_to_save_ = false;                       ///< by checkpoint.every_seconds, as all ranks know
  std::unique_ptr<ParallelRun> parallel_;
  std::unique_ptr<samples::Batches> batches_;
  bool recovers_;                              ///< the members below are kept up to date only then
  std::map<std::string, at::Tensor> buffers_;  ///< as they were when the step began, if all ranks have the same
  bool in_step_ = false;
  std::optional<UnverifiedStep> unverified_;  ///< of a rank that had completed the next step
  std::optional<InjectedFault>& fault_;
};

}  // namespace lockstep::train
