// One rank's part of a run: data, model, optimizer, and the loop over them.
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/optimizer/schedule.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/output/run_clock.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/stop_signals.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {

class Session final : private RunView {
 public:
  /// Loads the data, builds the model, and continues from `kept`, a state from memory, or else from a checkpoint as
  /// configured. A collective, like `train`. `asked` is the configuration before planning: the next run is compared
  /// with it. Error(config), on all ranks, when this run may not continue from that checkpoint (changes.h), or no steps
  /// are left to do under this configuration. `tables`: the location of the model's tables, if they are not in the
  /// model; the servers save and resume together with this session. `fault`, which outlives this, is reset after it was
  /// triggered, so that it is not triggered again in another Session. `times` also outlives this.
  Session(const ResolvedRun& config, const ResolvedRun& asked, const Program& program, const Group& group,
          Console& console, std::optional<InjectedFault>& fault, KeptTimes& times,
          std::optional<ResumePoint> kept = std::nullopt, std::optional<TablePlace> tables = std::nullopt);
  ~Session() override;

  /// Call it once before train(). `completed`: the furthest step that an earlier process is known to have completed. A
  /// collective.
  void join_times(std::int64_t completed);

  /// Trains to the end of the plan, with evaluations and checkpoints during and after it. False when it ended early,
  /// with only a checkpoint: after a step in which `signals` of any rank had recorded a signal.
  bool train(Callbacks callbacks, const StopSignals& signals);

  /// The state from which this rank can continue in another Session after a collective has failed: after the last step
  /// that this rank has completed, with tensors that share the memory of this session's. nullopt when no state is kept
  /// (no recovery), or this rank has neither all of it (see ParallelRun::keeps_whole_state) nor parts. Moves the parts
  /// out: call it once, and no other function after it.
  std::optional<KeptState> salvage();

  /// A collective.
  TimeDivision divide_time() { return clock_.divide(); }

  const RunState& state() const { return state_; }
  const RunLength& plan() const { return plan_; }
  const c10::Device& device() const { return options_.device; }
  /// Samples of a full batch of all ranks.
  std::int64_t global_batch_size() const { return global_batch_size_of(config_.data, share_.count); }
  /// Parameters and buffers of the whole model. A collective.
  NamedTensors model_state() const { return parallel_->model_state(); }
  /// Tensors of the model that are on parameter servers, and not in model_state().
  std::vector<RemoteTensor> distant_tensors() const { return parallel_->distant_tensors(); }
  /// Remarks for users at the end of the run.
  std::vector<std::string> closing_words() const { return parallel_->closing_words(); }
  /// Called when the run has its result, or was ended early by a signal, and no longer needs the servers.
  void finish(std::optional<int> ended_by) { parallel_->finish(ended_by); }
  /// The names of the classes, in the order of their numbers; empty if the data has none.
  std::vector<std::string> classes() const { return train_data_.dataset->classes(); }
  /// Whether the last checkpoint that was due could not be written.
  bool lacks_checkpoint() const { return lacks_checkpoint_; }

 private:
  // The functions for callbacks.
  const ResolvedRun& config() const override { return config_; }
  const Group& group() const override { return group_; }
  torch::nn::Module& model() const override { return *model_.module; }
  std::int64_t step() const override { return state_.step; }
  std::int64_t total_steps() const override { return plan_.total_steps; }
  std::int64_t epoch() const override { return state_.epoch; }
  double lr() const override { return lr_; }
  std::optional<double> loss() const override { return loss_; }
  const std::vector<Evaluation>& evaluations() const override { return state_.evaluations; }
  const std::optional<StepReport>& logged() const override { return state_.logged; }
  const samples::Dataset& training_data() const override { return *train_data_.dataset; }
  const samples::Dataset* evaluation_data() const override { return eval_data_ ? eval_data_->dataset.get() : nullptr; }
  void ask_to_stop(std::string reason) override;
  void ask_to_save() override { asked_.save = true; }
  void ask_to_evaluate() override { asked_.evaluate = true; }
  void evaluate_with(NamedTensors parameters, std::string name) override {
    evaluated_ = std::move(parameters);
    evaluated_name_ = std::move(name);
  }
  std::filesystem::path save_checkpoint(const std::filesystem::path& folder) override;
  NamedTensors weights() const override { return model_state(); }
  void tell(std::string_view line) const override { train::tell(console_, line); }

  NamedTensors callback_tensors() const;
  SavedState state_to_save() const;
  StepVotes votes(const StopSignals& signals);
  void at(StepPoint point);
  void agree_on_requests();
  void follow(const StepVotes& agreed);
  std::string why_finished() const;
  void stop_now();
  StepReport of_sink(StepReport step) const;
  void report_step(StepReport step);
  void show_step(const StepReport& step);
  void note_saved();
  NamedTensors model_before_step() const;
  void take_weights_or_state(bool from_memory);
  void check_changes(bool from_memory);
  void check_length(bool changed) const;
  void tell_of_run();
  void tell_of_memory(const Program& program);
  void try_evaluation();
  std::function<void(const at::Tensor&)> inspection();
  void tell_of_shares();
  void tell_of_idle_axes();
  void tell_of_recording();
  void begin_step();
  void fault_at(FaultPlace place, std::int64_t step);
  bool save_is_due() const;
  void look_after_checkpoints();
  void tolerate_full_disk(const std::function<void()>& save);
  void end_epoch_if_whole();
  void train_epoch(const StopSignals& signals);
  StepReport train_step(const StopSignals& signals);
  double take_seconds();
  double take_seconds_of_callbacks();
  void note_overflow(bool overflow);
  bool asked_to_end() const { return ends_; }
  bool lacks_evaluation() const;
  void evaluate_if_owed();
  void evaluate_now();
  std::int64_t sink_size() const;
  bool ends_sink() const;
  void tell_of_left_out(const RankData& data, const samples::Batches& batches, std::string_view what);
  void save_now();
  bool finished() const { return state_.step >= plan_.total_steps || !state_.stopped.empty(); }

  const ResolvedRun& config_;
  Group group_;
  std::optional<TablePlace> tables_;
  Group everyone_;  ///< all processes that save together
  Console& console_;
  RunClock clock_;
  DataShare share_;
  RankData train_data_;
  std::optional<RankData> eval_data_;
  RunLength plan_;
  Settings settings_;
  ForwardOptions options_;
  Model model_;
  bool owes_save_;  ///< whether a checkpoint of the state in memory may be due
  Settings configuration_;
  std::optional<ResumePoint> resumed_;
  RunState state_;
  std::optional<std::int64_t> saved_step_;  ///< step of the newest checkpoint
  bool lacks_checkpoint_ = false;           ///< a checkpoint could not be written
  CheckpointWriter writer_;
  std::chrono::steady_clock::time_point saved_at_;  ///< start of that save, or of this session
  std::chrono::steady_clock::time_point counted_;   ///< time up to here is counted as time of steps, or left out
  bool time_to_save_ = false;                       ///< by checkpoint.every_seconds or a callback; equal on all ranks
  bool time_to_evaluate_ = false;                   ///< requested by a callback; equal on all ranks
  bool told_of_recording_ = false;
  bool inspected_ = false;           ///< the first loss was checked
  bool ends_ = false;                ///< a rank received a signal
  StepVotes asked_;                  ///< requests of this rank's callbacks that are not agreed yet
  std::optional<StepVotes> agreed_;  ///< in the last step
  std::string stop_reason_;
  double lr_ = 0;
  std::optional<double> loss_;
  std::optional<StepReport> sink_;  ///< the steps of the current sink so far
  NamedTensors evaluated_;          ///< values that replace the model's in an evaluation
  std::string evaluated_name_;      ///< of these values, for users
  NamedTensors saved_callbacks_;    ///< of the state from which this session continues, until train()
  std::unique_ptr<CallbackPoints> points_;
  std::unique_ptr<ParallelRun> parallel_;
  std::unique_ptr<samples::Batches> batches_;
  bool recovers_;                              ///< the members below are kept up to date only then
  std::map<std::string, at::Tensor> buffers_;  ///< their values at the start of the step, if all ranks have the same
  bool in_step_ = false;
  std::optional<InjectedFault>& fault_;
};

}  // namespace lockstep::train
