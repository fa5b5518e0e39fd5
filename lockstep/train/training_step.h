// One optimizer step: forward and backward of this rank's batches, and the update.
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/forward.h>
#include <lockstep/train/stop_signals.h>
#include <lockstep/train/updater.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::train {

struct StepRequest {
  std::int64_t batches = 1;  ///< of each rank in this step
  std::int64_t samples = 1;  ///< in all batches of all ranks
  double lr = 0;
  bool want_global_loss = false;
  const StopSignals* signals = nullptr;  ///< a recorded one raises this rank's hand in the step's last backward
  std::int64_t epoch = 0;                ///< for messages: both count from 1
  std::int64_t step_in_epoch = 0;
  std::function<void(FaultPlace)> fault{};  ///< called at forward, backward and reduced, if there is one
  std::function<void()> forwarded{};        ///< called after the last forward, if there is one
  std::function<void()> leaving{};          ///< called before the last gradients of this rank are sent, perhaps twice
};

struct StepLosses {
  std::optional<double> local;   ///< mean over this rank's items; none without
  std::optional<double> global;  ///< mean over all ranks' items, when asked for
};

/// The gradient is that of the mean loss over the items (Outcome::items) of all batches of all ranks. With S samples
/// and I items in all of them, each batch's mean loss is scaled by its items * ranks / S before backward, DataParallel
/// divides by the ranks, and where I is not S the gradients are scaled by S / I before the update. So ranks with fewer
/// samples, or none, have the weight of their samples. Without parallel.gradients_mean it is `ranks` times that.
class TrainingStep {
 public:
  struct Options {
    ForwardOptions forward;
    double clip_norm = 0;           ///< 0 leaves the gradients as they are
    bool forwards_nothing = false;  ///< forward also batches without samples: where forward has collectives
  };

  /// All references outlive this object.
  TrainingStep(const Model& model, DataParallel& parallel, Updater& updater, Options options);

  /// Takes the step's batches from `batches`, some perhaps empty. Error(numeric) naming epoch, step and rank when a
  /// loss is NaN or infinite, before anything is updated.
  StepLosses run(const StepRequest& request, samples::Batches& batches);

 private:
  /// For an empty batch the loss is 0 if that is forwarded, and else undefined.
  Forwarded forward_checked(samples::Batch batch, const StepRequest& request) const;

  const Model& model_;
  DataParallel& parallel_;
  Updater& updater_;
  Options options_;
};

}  // namespace lockstep::train
