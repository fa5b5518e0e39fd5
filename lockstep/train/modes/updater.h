// The update of a data-parallel run: its optimizer, whole on every rank or sharded; and training steps that are
// recorded once as a CUDA graph (train.cuda_graph), and then launched as a whole.
#pragma once

#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/rank_copies.h>
#include <lockstep/train/optimizer.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

class Updater {
 public:
  /// A collective when `sharded`, as are `step` and `add_state` then. `recovers`: shards have backups.
  Updater(const ResolvedRun& run, const DataParallel& parallel, bool sharded, bool recovers);
  ~Updater();

  /// Updates the parameters with their gradients, which are first scaled down to a common norm of `clip_norm` if it is
  /// above 0 and theirs is larger. `at` is called around the update itself, if there is one.
  void step(double lr, double clip_norm, const std::function<void(StepPoint)>& at = {});

  /// For updates without step(): the optimizer of all parameters, if there are no shards, and the learning rate of its
  /// next update.
  torch::optim::Optimizer& whole_optimizer() { return *optimizer_; }
  void take_rate(double lr);

  /// Adds this state, named as in saved_checkpoint.h; with shards, each rank adds its part.
  void add_state(SavedState& saved) const;
  /// Loads a state that was saved with shards or without, by any number of ranks: `outline` describes its tensors,
  /// without "optimizer.". Each rank reads its parts. The module must have its parameters already. Error(data) as
  /// load_optimizer_state.
  void load(StateSource& source, const NamedTensors& outline);

  /// The same as optimizer_state; empty with shards.
  NamedTensors state() const;

  /// With shards that have backups, this rank's part of the state; nullopt without. Moves the state out: no update may
  /// follow. Not a collective.
  std::optional<KeptParts> take_parts();

 private:
  NamedParameters parameters_;
  std::optional<ParameterShards> shards_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<ShardBackup> backup_;
};

/// The reason why the steps of such a run cannot be recorded; nullopt: recording may be possible (GraphedStep decides).
std::optional<std::string> why_not_recorded(const ResolvedRun& config, const torch::nn::Module& module);

/// A view of the step of one rank with a CUDA device, of one batch: forward, backward and update are one launch, in the
/// place of backward. Results equal those of the mirrored view, except for the last bits. The points after backward are
/// called after the update, too, so changes of gradients by callbacks have no effect. Not thread-safe.
class RecordedStep final : public StepView {
 public:
  /// All references outlive this object. Requires that why_not_recorded() is empty, so the optimizer is whole on this
  /// rank.
  RecordedStep(const Model& model, const DataParallel& parallel, Updater& updater, ForwardOptions forward);

  void begin() override {}
  at::Tensor forward(samples::Batch batch, const StepRequest& request, bool last, StepSums& own) override;
  void vote(const StepSums&, const StepRequest&) override {}
  void backward(const at::Tensor& loss, const StepRequest& request, bool last,
                const std::function<void()>& sending) override;
  /// If losses are not needed, the host does not wait for the device, and a loss that is NaN or infinite is found up to
  /// kMostAhead steps later.
  StepLosses reduce(StepSums& own, const StepRequest& request) override;
  void scale(double, double) override {}
  void update(double lr, const std::function<void(StepPoint)>& at) override;

  /// Steps that the host may be ahead: the device's memory holds their inputs.
  static constexpr int kMostAhead = 16;

  bool is_recorded() const { return step_.is_recorded(); }
  /// The reason why steps are not recorded; nullopt before the recording was tried, and if they are recorded.
  const std::optional<std::string>& why_not() const { return why_not_ ? why_not_ : step_.why_not_recorded(); }

 private:
  at::Tensor loss_of(const std::vector<at::Tensor>& inputs) const;
  at::Tensor launch();

  const Model& model_;
  Updater& updater_;
  ForwardOptions forward_;
  samples::Batch batch_;  ///< of this step; GraphedStep gives the tensors
  at::Tensor loss_;       ///< of this step, on the device
  int ahead_ = 0;         ///< steps since the host last waited for the device
  GraphedStep step_;
  std::optional<std::string> why_not_;  ///< a reason that depends on the data
};

}  // namespace lockstep::train
