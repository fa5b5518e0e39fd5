// A trained model in a program: the model of a run's configuration with weights from a file, which predicts samples.
//
//   const lockstep::train::TrainedRun run("out/config.yaml", "out/model.safetensors");
//   lockstep::samples::Sample sample;
//   sample.tensors["pictures"] = lockstep::samples::to_tensor(lockstep::data::read_picture("new.jpg", {}));
//   const at::Tensor logits = run.predict({sample}).tensors.at("logits");
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// One process without ranks, on the CPU. Unlike a Trainer (runner/trainer.h) it changes nothing of the process, so
/// that a task may use another run's model. Not thread-safe.
class TrainedRun {
 public:
  /// The model, the task and the evaluation's transforms of `config`, the file that a run was started with or its
  /// config.yaml, with `weights`, any file that model.weights takes: as `lockstep predict --config CONFIG --weights
  /// WEIGHTS`. `parts`: those that the configuration may name (parts.h); nullptr: the shipped ones. Error(config) as
  /// load_run_config(), and, with where() "model.weights", when the file does not hold weights of this model.
  TrainedRun(const std::filesystem::path& config, const std::string& weights,
             std::shared_ptr<const Parts> parts = nullptr);

  /// What the task predicts for these samples, in their order: one batch, without gradients. Samples have the fields
  /// of the run's data set before its transforms, without labels, such as `pictures`, uint8 [H, W, C]; those of unequal
  /// sizes after the transforms are padded with zeros. `first` is the number of the first sample, for random transforms
  /// and for names in predictions. Errors of the transforms and the task; Error(unsupported) for a task that does not
  /// predict.
  Prediction predict(std::vector<samples::Sample> samples, std::int64_t first = 0) const;

  const ResolvedRun& config() const { return config_; }
  torch::nn::Module& model() const { return *model_; }

 private:
  ResolvedRun config_;
  samples::Transform transform_;
  std::shared_ptr<torch::nn::Module> model_;
  std::shared_ptr<Task> task_;
};

}  // namespace lockstep::train
