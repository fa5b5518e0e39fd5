// The interface of a parallel run: the operations that differ between the mirrored and the global view.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/config.h>
#include <lockstep/train/forward.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/reports.h>
#include <lockstep/train/shard_parts.h>
#include <lockstep/train/training_step.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace lockstep::train {

/// Which of the equal shares of each step's samples a rank loads.
struct DataShare {
  int index = 0;
  int count = 1;
};

/// Collectives are: step, evaluate, model_state, optimizer_state and load_optimizer_state. The other functions are
/// local to this rank.
class ParallelRun {
 public:
  virtual ~ParallelRun() = default;

  /// One optimizer step over the next batches.
  virtual StepLosses step(const StepRequest& request, samples::Batches& batches) = 0;

  /// Whether some rank had noted a signal in the last step: the same on all ranks.
  virtual bool asked_to_end() const = 0;

  /// One epoch of batches. `epoch` and `step` of the result are left at 0; the model is in training mode afterwards.
  virtual Evaluation evaluate(samples::Batches& batches) = 0;

  /// Parameters and buffers of the whole model, and the optimizer's state: the same on all ranks, and independent of
  /// the parallelism.
  virtual NamedTensors model_state() = 0;
  virtual NamedTensors optimizer_state() = 0;
  virtual void load_optimizer_state(const NamedTensors& state) = 0;

  /// Both as they lie on the ranks, global tensors named as in checkpoint.h, where ranks divide them; nullopt where
  /// every rank can have them whole.
  virtual std::optional<NamedTensors> divided_state() { return std::nullopt; }

  /// Whether every rank holds both as a whole (buffers too) between two steps, so that one remaining rank has all.
  virtual bool keeps_whole_state() const { return false; }

  /// Where every rank keeps a part of the state, and a copy of another rank's: moves the parts out of this object,
  /// which cannot be used any more then.
  virtual std::optional<ShardParts> take_shard_parts() { return std::nullopt; }

  /// Loads the tensors that belong to this rank alone from a state that was assembled from parts.
  virtual void load_own(const NamedTensors&) {}

  /// The rank whose random number stream this rank uses in steps.
  virtual int random_stream() const = 0;
};

/// Bytes of so many MiB of the configuration, at least 1.
std::int64_t bytes_of_mib(double mib);

DataShare data_share(const RunConfig& config, const Group& group);

/// Makes the run of a model that is ready to be trained; all ranks get rank 0's weights. A collective.
std::unique_ptr<ParallelRun> make_parallel_run(const RunConfig& config, const Model& model, const Group& group,
                                               const ForwardOptions& options);

}  // namespace lockstep::train
