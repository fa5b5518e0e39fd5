// A data parallel run, in which every rank holds a replica of the model.
#pragma once

#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/train/modes/mirrored_step.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/recorded_step.h>
#include <lockstep/train/modes/updater.h>
#include <lockstep/train/recovery/buffer_ring.h>

namespace lockstep::train {

class MirroredRun final : public ParallelRun {
 public:
  MirroredRun(const RunConfig& config, const Model& model, const Group& group, const ForwardOptions& options,
              std::optional<TablePlace> tables);

  StepLosses step(const StepRequest& request, samples::Batches& batches) override;
  Evaluation evaluate(samples::Batches& batches, EvaluationPurpose purpose) override;
  Prediction predict(samples::Batch batch) override;
  NamedTensors model_state() override;
  SavedState state_to_save() override;
  void load_state(StateSource& source) override;
  NamedTensors optimizer_state() const override { return updater_.state(); }
  bool keeps_whole_state() const override { return keeps_whole_state_; }
  std::optional<KeptParts> take_parts() override;
  std::vector<RemoteTensor> distant_tensors() override;
  SavedState with_distant(SavedState state) override;
  void finish(std::optional<int> ended_by) override;
  std::optional<std::string> recording() const override;
  int random_stream() const override { return parallel_.group().rank(); }

 private:
  void synchronize();

  const Model& model_;
  ForwardOptions options_;
  DataParallel parallel_;
  std::optional<ServedTables> tables_;  ///< on parameter servers
  Updater updater_;
  MirroredStep step_;
  std::optional<RecordedStep> recorded_;  ///< in place of step_
  std::optional<std::string> why_not_recorded_;
  std::optional<BufferRing> ring_;  ///< with recovery and buffers that differ between ranks
  bool is_one_batch_;               ///< whether the ranks' batches count as one, with its loss as in the global view
  bool keeps_whole_state_;
};

}  // namespace lockstep::train
