// A run in the global view: one logical model over a mesh, its parameters and batches divided as configured.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/train/modes/divided_update.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/optimizer.h>

#include <memory>
#include <optional>

namespace lockstep::global {
class Prefetch;
}

namespace lockstep::train {

/// Batches, losses and gradients are those of the whole batch, so BatchNorm sees all of it, and every rank draws the
/// same random numbers.
class GlobalRun final : public ParallelRun, private StepView {
 public:
  GlobalRun(const RunConfig& config, const Model& model, const Group& group, const ForwardOptions& options);
  ~GlobalRun() override;

  StepLosses step(const StepRequest& request, samples::Batches& batches) override;
  Evaluation evaluate(samples::Batches& batches, EvaluationPurpose purpose) override;
  Prediction predict(samples::Batch batch) override;
  bool predicts_all() const override { return true; }
  NamedTensors model_state() override;
  SavedState state_to_save() override;
  void load_state(StateSource& source) override;
  int random_stream() const override { return 0; }
  std::vector<std::string> closing_words() const override;

 private:
  /// The parameters that the optimizer updates.
  const NamedParameters& updated() const { return divided_ ? divided_->parts() : parameters_; }

  class PrefetchedStep;

  // One step: see StepView.
  void begin() override;
  at::Tensor forward(samples::Batch batch, const StepRequest& request, bool last, StepSums& own) override;
  void vote(const StepSums& own, const StepRequest& request) override;
  void backward(const at::Tensor& loss, const StepRequest& request, bool last,
                const std::function<void()>& sending) override;
  StepLosses reduce(StepSums& own, const StepRequest& request) override;
  void scale(double factor, double lr) override;
  void update(double lr, const std::function<void(StepPoint)>& at) override;

  const Model& model_;
  Group group_;
  MeshLayout layout_;
  Mesh mesh_;
  ForwardOptions options_;
  double clip_norm_;
  double gradient_scale_;
  NamedParameters parameters_;
  std::shared_ptr<global::Prefetch> prefetch_;  ///< with a parallel.wrapper that places parameters
  std::optional<DividedUpdate> divided_;        ///< with parallel.shard_optimizer
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  PrefetchedStep* prefetched_ = nullptr;  ///< of the step under way
  double share_ = 0;                      ///< of the last forward: its items / samples of the step
  StepVotes votes_{};                     ///< of this rank in this step
};

}  // namespace lockstep::train
