// Training steps that are recorded once as a CUDA graph (train.cuda_graph), and then launched as a whole.
#pragma once

#include <lockstep/mirrored/graphed_step.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/updater.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

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
