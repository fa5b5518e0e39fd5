// How the ranks of a run share one model and its training: what differs between the mirrored and the global view.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/data/loader.h>
#include <lockstep/models/registry.h>
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

/// Which of the equal shares of each step's pictures a rank loads.
struct DataShare {
  int index = 0;
  int count = 1;
};

/// What makes steps, evaluates, gathers or loads the state of the whole model is a collective: step, evaluate,
/// model_state, optimizer_state and load_optimizer_state. The rest is this rank's alone.
class ParallelRun {
 public:
  virtual ~ParallelRun() = default;

  /// One optimizer step over `loader`'s next batches.
  virtual StepLosses step(const StepRequest& request, data::Loader& loader) = 0;

  /// Whether some rank had noted a signal in the last step: the same on all ranks.
  virtual bool asked_to_end() const = 0;

  virtual Evaluation evaluate(data::Loader& loader) = 0;

  /// Parameters and buffers of the whole model, and what the optimizer remembers of it: the same on all ranks, and
  /// whatever the parallelism was.
  virtual NamedTensors model_state() = 0;
  virtual NamedTensors optimizer_state() = 0;
  virtual void load_optimizer_state(const NamedTensors& state) = 0;

  /// Whether every rank holds the whole of both (buffers too) between two steps, so that one that is left has all.
  virtual bool keeps_whole_state() const { return false; }

  /// Where every rank keeps a part of it, and a copy of another's: takes its parts out of this, which cannot go on
  /// then.
  virtual std::optional<ShardParts> take_shard_parts() { return std::nullopt; }

  /// Takes what a state that was put together from parts holds for this rank alone.
  virtual void load_own(const NamedTensors&) {}

  /// The rank whose random numbers this rank draws in steps.
  virtual int random_stream() const = 0;
};

/// Bytes of so many MiB of the configuration, at least 1.
std::int64_t bytes_of_mib(double mib);

DataShare data_share(const RunConfig& config, const Group& group);

/// Takes over a model that is ready to be trained: with its weights, which are rank 0's that count. A collective.
std::unique_ptr<ParallelRun> make_parallel_run(const RunConfig& config, const models::Classifier& model,
                                               const Group& group, const ForwardOptions& options);

}  // namespace lockstep::train
