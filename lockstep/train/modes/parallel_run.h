// The interface of a parallel run: the operations that differ between the mirrored and the global view.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/state/kept_state.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/training_step.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/served/served_tables.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::train {

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
