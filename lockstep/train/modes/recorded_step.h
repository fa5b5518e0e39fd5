// Training steps that are recorded once as a CUDA graph (train.cuda_graph), and then launched as a whole.
#pragma once

#include <lockstep/mirrored/graphed_step.h>
#include <lockstep/train/modes/training_step.h>
#include <lockstep/train/modes/updater.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// The reason why the steps of such a run cannot be recorded; nullopt: recording may be possible (GraphedStep decides).
std::optional<std::string> why_not_recorded(const RunConfig& config, const torch::nn::Module& module);

/// One optimizer step after another, of one batch each, on a CUDA device. Results equal those of take_step, except
/// for the last bits. A graph has no callback points inside: the points within a step are called before and after the
/// whole step, and changes of gradients by callbacks have no effect. Not thread-safe.
class RecordedStep {
 public:
  /// All references outlive this object. Requires that why_not_recorded() is empty, so the optimizer is whole on this
  /// rank.
  RecordedStep(const Model& model, const DataParallel& parallel, Updater& updater, ForwardOptions forward);

  /// As take_step; Error(numeric) for a loss that is NaN or infinite is thrown after the update. If losses are
  /// not needed, the host does not wait for the device, and such a loss is found up to kMostAhead steps later.
  StepLosses run(const StepRequest& request, samples::Batches& batches);

  /// Steps that the host may be ahead: the device's memory holds their inputs.
  static constexpr int kMostAhead = 16;

  bool is_recorded() const { return step_.is_recorded(); }
  /// The reason why steps are not recorded; nullopt before the recording was tried, and if they are recorded.
  const std::optional<std::string>& why_not() const { return why_not_ ? why_not_ : step_.why_not_recorded(); }

 private:
  at::Tensor loss_of(const std::vector<at::Tensor>& inputs) const;
  at::Tensor launch(const std::vector<at::Tensor>& inputs);

  const Model& model_;
  Updater& updater_;
  ForwardOptions forward_;
  samples::Batch batch_;  ///< of this step; GraphedStep gives the tensors
  int ahead_ = 0;         ///< steps since the host last waited for the device
  GraphedStep step_;
  std::optional<std::string> why_not_;  ///< a reason that depends on the data
};

}  // namespace lockstep::train
