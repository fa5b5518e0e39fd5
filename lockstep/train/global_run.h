// A run in the global view: one logical model over a mesh, its parameters and batches divided as configured.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/train/mesh_config.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/parallel_run.h>

#include <memory>

namespace lockstep::train {

/// Batches, losses and gradients are those of the whole batch, so BatchNorm sees all of it, and every rank draws the
/// same random numbers.
class GlobalRun final : public ParallelRun {
 public:
  GlobalRun(const RunConfig& config, const Model& model, const Group& group, const ForwardOptions& options);
  ~GlobalRun() override;

  StepLosses step(const StepRequest& request, samples::Batches& batches) override;
  bool asked_to_end() const override { return asked_to_end_; }
  Evaluation evaluate(samples::Batches& batches) override;
  NamedTensors model_state() override;
  NamedTensors optimizer_state() override;
  std::optional<NamedTensors> divided_state() override;
  void load_optimizer_state(const NamedTensors& state) override;
  int random_stream() const override { return 0; }

 private:
  void agree_on_end(const StopSignals* signals);

  const Model& model_;
  Group group_;
  MeshLayout layout_;
  Mesh mesh_;
  ForwardOptions options_;
  double clip_norm_;
  double gradient_scale_;
  bool asked_to_end_ = false;
  NamedParameters parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace lockstep::train
