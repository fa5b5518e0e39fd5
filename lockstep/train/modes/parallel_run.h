// A parallel run and its steps: the operations that differ between the mirrored and the global view. One optimizer step
// is forward and backward of this rank's batches, the vote of ranks, and the update.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/state/kept_state.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/served/served_tables.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::train {

/// Each is true for all ranks if it is for one of them.
struct StepVotes {
  bool end = false;   ///< because of a signal
  bool stop = false;  ///< this and the next two are requests of callbacks
  bool save = false;
  bool evaluate = false;
  bool overdue = false;  ///< checkpoint.every_seconds are over, by rank 0's clock
  bool writing = false;  ///< a checkpoint is still being written
};

/// One all_reduce, under way from construction on. A collective.
class Vote {
 public:
  /// `numbers` are added up.
  Vote(const StepVotes& own, const std::vector<double>& numbers, const Group& group);

  void wait() { work_.wait(); }
  /// After wait():
  StepVotes agreed() const;
  double sum(std::size_t number) const;

 private:
  at::Tensor sums_;
  Work work_;
};

/// The points within a step, in their order. Those of callbacks are the four around backward and update.
enum class StepPoint {
  first_forward,  ///< after the forward of the first batch
  before_backward,
  last_forward,    ///< after the last forward, when ranks vote
  sending,         ///< before the last gradients of this rank are sent, if StepRequest::watches_sending
  reduced,         ///< when all gradients are there
  after_backward,  ///< the gradients are those of the mean loss
  before_update,
  after_update,
};

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
  bool watches_sending = false;
  std::int64_t epoch = 0;  ///< for messages: both count from 1
  std::int64_t step_in_epoch = 0;
  std::function<void(const at::Tensor& loss)> inspect{};  ///< called with the loss of the first batch, if there is one
};

struct StepLosses {
  std::optional<double> local;   ///< mean over this rank's items; none without items, and perhaps if it is not needed
  std::optional<double> global;  ///< mean over all ranks' items: if requested, or if it is available without cost
  /// With StepRequest::loss_scale: whether a loss or gradient of any rank was NaN or infinite, so that nothing was
  /// updated. The same on all ranks. Losses that are not finite are left out.
  bool overflow = false;
  std::optional<StepVotes> agreed{};  ///< none: ranks did not vote in this step
};

/// What one rank adds to the losses of a step.
struct StepSums {
  double loss = 0;
  double items = 0;
};

/// What differs in a step between the views: mirrored_run.cpp, global_run.cpp and updater.h (recorded steps).
class StepView {
 public:
  virtual ~StepView() = default;

  /// Removes the gradients of the step before.
  virtual void begin() = 0;
  /// One forward, added to `own`. The loss is undefined where there is nothing for backward. Error(numeric) naming
  /// epoch and step when it is NaN or infinite and there is no loss scale.
  virtual at::Tensor forward(samples::Batch batch, const StepRequest& request, bool last, StepSums& own) = 0;
  /// Called before the last backward with the sums of all batches.
  virtual void vote(const StepSums& own, const StepRequest& request) = 0;
  /// The backward of the batch whose forward came last. The last one exchanges the gradients of all; `sending` is then
  /// called before the last of them, if it is not empty.
  virtual void backward(const at::Tensor& loss, const StepRequest& request, bool last,
                        const std::function<void()>& sending) = 0;
  /// Waits for gradients and votes. `own.items` becomes the number of items that the gradients are to be divided by.
  virtual StepLosses reduce(StepSums& own, const StepRequest& request) = 0;
  /// Multiplies all gradients by `factor`.
  virtual void scale(double factor, double lr) = 0;
  virtual void update(double lr, const std::function<void(StepPoint)>& at) = 0;
};

/// The step of both views. The gradient is that of the mean loss over the items (Outcome::items) of all batches of all
/// ranks. With S samples and I items in all of them, each batch's mean loss is scaled by its items / S before backward,
/// and where I is not S the gradients are scaled by S / I before the update. So ranks with fewer samples, or none, have
/// the weight of their samples. Without parallel.gradients_mean the gradient is `ranks` times larger. A loss scale is
/// one more factor, which is removed together with S / I.
StepLosses take_step(StepView& view, const StepRequest& request, samples::Batches& batches);

/// Error(numeric) that names epoch, step and rank for a loss that is NaN or infinite.
void require_finite(double loss, const StepRequest& request, std::optional<int> rank = std::nullopt);

/// Resets losses that are NaN or infinite.
void leave_out_infinite(StepLosses& losses);

/// The share of each step's samples that a rank loads. Shares are equal.
struct DataShare {
  int index = 0;
  int count = 1;
};

/// Collectives are: step, evaluate, predict in the global view, model_state, state_to_save and load_state. The other
/// functions are local to this rank.
class ParallelRun {
 public:
  virtual ~ParallelRun() = default;

  /// One optimizer step over the next batches.
  virtual StepLosses step(const StepRequest& request, samples::Batches& batches) = 0;

  /// One epoch of batches. `epoch` and `step` of the result are left at 0; the model is in training mode afterwards.
  virtual Evaluation evaluate(samples::Batches& batches, EvaluationPurpose purpose = EvaluationPurpose::result) = 0;

  /// The task's predictions for a batch that is not empty on all ranks: for this rank's samples; in the global view for
  /// the samples of all ranks, as whole tensors. The mode of the module is not changed.
  virtual Prediction predict(samples::Batch batch) = 0;
  virtual bool predicts_all() const { return false; }

  /// Parameters and buffers of the whole model: the same on all ranks, and independent of the parallelism.
  virtual NamedTensors model_state() = 0;

  /// The model's and the optimizer's state in the layout of the ranks, named as in saved_checkpoint.h. Shares their
  /// memory.
  virtual SavedState state_to_save() = 0;
  /// Continues from such a state of any parallelism; each rank reads the parts that it needs. Errors have the same kind
  /// on all ranks: Error(data) if the state does not fit, and those of StateSource.
  virtual void load_state(StateSource& source) = 0;

  /// The optimizer's state on this rank, if every rank has the whole state; else empty.
  virtual NamedTensors optimizer_state() const { return {}; }

  /// Whether every rank holds both as a whole (buffers too) between two steps, so that a single remaining rank has the
  /// whole state.
  virtual bool keeps_whole_state() const { return false; }

  /// If every rank keeps a part of the state, and a copy of another rank's part: moves the parts out of this object,
  /// which must not be used afterwards.
  virtual std::optional<KeptParts> take_parts() { return std::nullopt; }

  /// Tensors of the model that are on parameter servers and on no rank. Every rank may read them between two steps.
  virtual std::vector<RemoteTensor> distant_tensors() { return {}; }

  /// The state that the run saves: `state`, whose tensors are equal on all ranks, and the tensors on servers. A
  /// collective of all processes.
  virtual SavedState with_distant(SavedState state) { return state; }

  /// Called when the run has its result, and no longer needs the other processes.
  virtual void finish(std::optional<int> /*ended_by*/) {}

  /// Remarks for users at the end of the run.
  virtual std::vector<std::string> closing_words() const { return {}; }

  /// With train.cuda_graph, a description of the outcome for users; nullopt before the recording was tried.
  virtual std::optional<std::string> recording() const {
    return "steps are not recorded as a CUDA graph (train.cuda_graph): those of the global view never are";
  }

  /// The rank whose random number stream this rank uses in steps.
  virtual int random_stream() const = 0;
};

/// The two views (mirrored_run.cpp and global_run.cpp), without parallel.wrapper.
std::unique_ptr<ParallelRun> make_mirrored_run(const ResolvedRun& config, const Model& model, const Group& group,
                                               const ForwardOptions& options, std::optional<TablePlace> tables);
std::unique_ptr<ParallelRun> make_global_run(const ResolvedRun& config, const Model& model, const Group& group,
                                             const ForwardOptions& options);

/// Converts MiB of the configuration to bytes, at least 1.
std::int64_t bytes_of_mib(double mib);

DataShare data_share(const ResolvedRun& config, const Group& group);

/// Makes the run of a model that is ready for training; all ranks get rank 0's weights. `tables`: the location of the
/// model's tables, if they are not in the model. A collective.
std::unique_ptr<ParallelRun> make_parallel_run(const ResolvedRun& config, const Model& model, const Group& group,
                                               const ForwardOptions& options,
                                               std::optional<TablePlace> tables = std::nullopt);

}  // namespace lockstep::train
