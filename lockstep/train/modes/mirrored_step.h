// The data parallel view of a training step: every rank has a replica, and gradients are averaged.
#pragma once

#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/train/modes/training_step.h>
#include <lockstep/train/modes/updater.h>

#include <functional>
#include <optional>

namespace lockstep::train {

/// DataParallel divides gradients by the ranks, so each batch's mean loss is scaled by its items * ranks / S.
class MirroredStep final : public StepView {
 public:
  static constexpr std::int64_t kStepsAlone = 10;

  struct Options {
    ForwardOptions forward;
    double clip_norm = 0;           ///< 0 leaves the gradients as they are
    bool forwards_nothing = false;  ///< also run forward for batches without samples, because forward has collectives
    bool dense_gradients = false;   ///< one rank: sparse gradients become dense, as they do on several
    /// Ranks wait for each other only every kStepsAlone steps: gradients are those of the mean loss over this rank's
    /// items, and votes count at the next synchronization.
    bool alone = false;
    /// Updates parameters on servers, if there are any, with gradients times `scale`; consumes these gradients.
    std::function<void(double lr, double scale)> update_elsewhere{};
  };

  /// All references outlive this object.
  MirroredStep(const Model& model, DataParallel& parallel, Updater& updater, Options options);

  void begin() override;
  at::Tensor forward(samples::Batch batch, const StepRequest& request, bool last, StepSums& own) override;
  void vote(const StepSums& own, const StepRequest& request) override;
  void backward(const at::Tensor& loss, const StepRequest& request, bool last,
                const std::function<void()>& sending) override;
  StepLosses reduce(StepSums& own, const StepRequest& request) override;
  void scale(double factor, double lr) override;
  void update(double lr, const std::function<void(StepPoint)>& at) override;

 private:
  const Model& model_;
  DataParallel& parallel_;
  Updater& updater_;
  Options options_;
  std::optional<DataParallel::NoSync> quiet_;  ///< around all but the last batch
  double items_ = 0;                           ///< of the last forward
  std::optional<Vote> vote_;                   ///< with the sums of losses and items, while backward runs
};

}  // namespace lockstep::train
