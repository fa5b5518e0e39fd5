// One rank's part of a run: data, model, optimizer, and the loop over them.
#pragma once

#include <lockstep/base/fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/console.h>
#include <lockstep/train/forward.h>
#include <lockstep/train/parallel_run.h>
#include <lockstep/train/plan.h>
#include <lockstep/train/resume.h>
#include <lockstep/train/run_data.h>
#include <lockstep/train/run_state.h>
#include <lockstep/train/shard_parts.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::train {

class Session {
 public:
  /// Loads the data, builds the model, and goes on from `kept`, a state that was in memory, or else from a checkpoint
  /// as configured. A collective, as `train` is. `asked` is the configuration before it was planned: what the next run
  /// is compared with. Error(config), on all ranks, when this run may not go on from that checkpoint (changes.h), or
  /// nothing is left to do in the way that was asked for.
  /// `fault`, which outlives this, is reset when it has happened: a rank that goes on in another Session is spared.
  Session(const RunConfig& config, const RunConfig& asked, const Group& group, Console& console,
          std::optional<Fault>& fault, std::optional<ResumePoint> kept = std::nullopt);
  ~Session();

  /// Trains to the end of the plan, evaluating and saving on the way and at the end. False when it ended before: after
  /// a step in which `signals` of any rank had noted something, with a checkpoint and nothing else.
  bool train(const Callbacks& callbacks, const StopSignals& signals);

  /// What a rank that takes part in another Session needs to go on from here, after a collective has failed: as of the
  /// last step that this rank has completed, with tensors that share the memory of this session's. nullopt when nobody
  /// keeps that (no recovery), or no rank has all of it (see ParallelRun::keeps_whole_state).
  std::optional<Checkpoint> salvage() const;

  /// The same where a rank has a part only. Takes it: to be called once, and nothing after it.
  std::optional<KeptParts> salvage_parts();

  /// What a step that is made again must come to, while not all ranks are known to have come to it.
  const std::optional<Claim>& claim() const { return claim_; }

  const RunState& state() const { return state_; }
  const RunPlan& plan() const { return plan_; }
  const c10::Device& device() const { return options_.device; }
  /// Pictures of a full batch of all ranks.
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
  void compare_with_claim();
  bool save_is_due() const;
  void end_epoch_if_whole();
  void train_epoch(const Callbacks& callbacks, const StopSignals& signals);
  StepReport train_step(const StopSignals& signals);
  bool asked_to_end() const { return parallel_->asked_to_end(); }
  void evaluate_if_owed(const Callbacks& callbacks);
  void evaluate_now(const Callbacks& callbacks);
  void save_now();
  bool finished() const { return state_.step >= plan_.total_steps; }

  const RunConfig& config_;
  Group group_;
  Console& console_;
  DataShare share_;
  RankData train_data_;
  RankData eval_data_;
  RunPlan plan_;
  Settings settings_;
  ForwardOptions options_;
  models::Classifier model_;
  bool owes_save_;  ///< perhaps: the rank whose state in memory this goes on from may have been about to save
  Settings configuration_;
  std::optional<ResumePoint> resumed_;
  RunState state_;
  std::optional<std::int64_t> saved_step_;  ///< that of the newest checkpoint
  std::unique_ptr<ParallelRun> parallel_;
  std::unique_ptr<data::Loader> loader_;
  bool recovers_;                              ///< the rest of these is kept up to date only then
  std::map<std::string, at::Tensor> buffers_;  ///< as they were when the step began, if all ranks have the same
  bool in_step_ = false;
  std::optional<Claim> claim_;  ///< of a rank that had completed the next step
  std::optional<Fault>& fault_;
};

}  // namespace lockstep::train
