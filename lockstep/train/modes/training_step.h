// One optimizer step: forward and backward of this rank's batches, and the update.
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/updater.h>
#include <lockstep/train/modes/votes.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::train {

/// The points within a step at which callbacks are called.
enum class StepPoint { before_backward, after_backward, before_update, after_update };

struct StepRequest {
  std::int64_t batches = 1;  ///< of each rank in this step
  std::int64_t samples = 1;  ///< in all batches of all ranks
  double lr = 0;
  std::optional<double> loss_scale = std::nullopt;  ///< of a loss scaler: an overflow then skips the update
  bool want_global_loss = false;
  /// This step's losses are needed: false within a sink. Reading a loss makes the host wait for the device.
  bool want_losses = true;
  std::function<StepVotes()> votes{};   ///< of this rank, called before the step's last backward; empty: none
  std::function<void(StepPoint)> at{};  ///< called at these points, if there is one
  std::int64_t epoch = 0;               ///< for messages: both count from 1
  std::int64_t step_in_epoch = 0;
  std::function<void(FaultPlace)> fault{};                ///< called at forward, backward and reduced, if there is one
  std::function<void()> forwarded{};                      ///< called after the last forward, if there is one
  std::function<void(const at::Tensor& loss)> inspect{};  ///< called with the loss of the first batch, if there is one
  std::function<void()> leaving{};  ///< called before the last gradients of this rank are sent, perhaps twice
};

struct StepLosses {
  std::optional<double> local;   ///< mean over this rank's items; none without items, and perhaps if it is not needed
  std::optional<double> global;  ///< mean over all ranks' items: if requested, or if it is available without cost
  /// With StepRequest::loss_scale: whether a loss or gradient of any rank was NaN or infinite, so that nothing was
  /// updated. The same on all ranks. Losses that are not finite are left out.
  bool overflow = false;
  std::optional<StepVotes> agreed{};  ///< none: ranks did not vote in this step
};

/// Error(numeric) that names epoch, step and rank for a loss that is NaN or infinite.
void require_finite(double loss, const StepRequest& request, int rank);

/// Resets losses that are NaN or infinite.
void leave_out_infinite(StepLosses& losses);

/// The gradient is that of the mean loss over the items (Outcome::items) of all batches of all ranks. With S samples
/// and I items in all of them, each batch's mean loss is scaled by its items * ranks / S before backward, DataParallel
/// divides by the ranks, and where I is not S the gradients are scaled by S / I before the update. So ranks with fewer
/// samples, or none, have the weight of their samples. Without parallel.gradients_mean the gradient is `ranks` times
/// larger. A loss scale is one more factor, which is removed together with S / I.
class TrainingStep {
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
  TrainingStep(const Model& model, DataParallel& parallel, Updater& updater, Options options);

  /// Takes the step's batches from `batches`, of which some may be empty. Error(numeric) naming epoch, step and rank
  /// when a loss is NaN or infinite and there is no loss scale, before anything is updated.
  StepLosses run(const StepRequest& request, samples::Batches& batches);

 private:
  /// For an empty batch the loss is 0 if forward runs, and else undefined.
  Forwarded forward_checked(samples::Batch batch, const StepRequest& request) const;

  const Model& model_;
  DataParallel& parallel_;
  Updater& updater_;
  Options options_;
};

}  // namespace lockstep::train
