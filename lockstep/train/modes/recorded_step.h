// Training steps that are recorded once as a CUDA graph (train.cuda_graph), and launched as a whole from then on.
#pragma once

#include <lockstep/mirrored/graphed_step.h>
#include <lockstep/train/modes/training_step.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

/// Why the steps of such a run cannot be recorded, in words; nullopt: they may be (GraphedStep decides).
std::optional<std::string> why_not_recorded(const RunConfig& config, const torch::nn::Module& module);

/// One optimizer step after another, of one batch each, on a CUDA device. Numbers are those of TrainingStep, up to the
/// last bits. A graph has no points inside: callbacks are told of those within a step before and after the whole of it,
/// and what they do to gradients has no effect. Not thread-safe.
class RecordedStep {
 public:
  /// All references outlive this object. There is no why_not_recorded(), so the optimizer is whole on this rank.
  RecordedStep(const Model& model, const DataParallel& parallel, Updater& updater, ForwardOptions forward);

  /// As TrainingStep::run; Error(numeric) for a loss that is NaN or infinite comes after the update. Where nobody looks
  /// at losses, the host does not wait for the device, and such a loss is found up to kMostAhead steps later.
  StepLosses run(const StepRequest& request, samples::Batches& batches);

  /// Steps that the host may be ahead: the device's memory holds their inputs.
  static constexpr int kMostAhead = 16;

  bool is_recorded() const { return step_.is_recorded(); }
  /// Why steps are not recorded after all; nullopt before it was tried, and where they are.
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
  std::optional<std::string> why_not_;  ///< of the data
};

}  // namespace lockstep::train
