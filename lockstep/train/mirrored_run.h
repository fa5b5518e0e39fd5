// A data parallel run, in which every rank holds a replica of the model.
#pragma once

#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/train/buffer_ring.h>
#include <lockstep/train/parallel_run.h>
#include <lockstep/train/updater.h>

namespace lockstep::train {

class MirroredRun final : public ParallelRun {
 public:
  MirroredRun(const RunConfig& config, const Model& model, const Group& group, const ForwardOptions& options);

  StepLosses step(const StepRequest& request, samples::Batches& batches) override;
  bool asked_to_end() const override { return parallel_.stop_votes() > 0; }
  Evaluation evaluate(samples::Batches& batches) override;
  NamedTensors model_state() override;
  NamedTensors optimizer_state() override { return updater_.state(); }
  void load_optimizer_state(const NamedTensors& state) override { updater_.load(state); }
  bool keeps_whole_state() const override { return keeps_whole_state_; }
  std::optional<ShardParts> take_shard_parts() override;
  void load_own(const NamedTensors& state) override;
  int random_stream() const override { return parallel_.group().rank(); }

 private:
  void synchronize_buffers();

  const Model& model_;
  ForwardOptions options_;
  DataParallel parallel_;
  Updater updater_;
  TrainingStep step_;
  std::optional<BufferRing> ring_;  ///< with recovery and buffers that differ between ranks
  bool is_one_batch_;               ///< whether the ranks' batches count as one, with its loss as in the global view
  bool keeps_whole_state_;
};

}  // namespace lockstep::train
