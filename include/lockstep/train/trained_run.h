// The result of a whole training run, and a trained model in a program: the model of a run's configuration with weights
// from a file, which predicts samples.
//
//   const lockstep::train::TrainedRun run("out/config.yaml", "out/model.safetensors");
//   lockstep::samples::Sample sample;
//   sample.tensors["pictures"] = lockstep::samples::to_tensor(lockstep::data::read_picture("new.jpg", {}));
//   const at::Tensor logits = run.predict({sample}).tensors.at("logits");
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

/// Seconds of each part of a run's time, by its name: start, data, compute, communicate, wait, save, lost, evaluate and
/// other (docs/watching.md#where-the-time-went).
using SecondsByPart = std::map<std::string, double, std::less<>>;

/// The division of the time of a run: means over ranks.
struct TimeDivision {
  double wall = 0;        ///< seconds from the start of the process to the result, with earlier parts of a resumed run
  SecondsByPart parts{};  ///< their sum is `wall`
  struct WaitOfRank {
    int rank = 0;
    double seconds = 0;
  };
  /// The rank that waited least is the one that the others waited for. Only with several ranks that make each step
  /// together.
  std::optional<WaitOfRank> shortest_wait = std::nullopt;
  std::optional<WaitOfRank> longest_wait = std::nullopt;

  /// The effective training time ratio: the share of data, compute, communicate and wait in the wall time.
  double ettr() const;
};

class StopSignals;

/// The same on every rank.
struct RunResult {
  std::optional<Evaluation> evaluation;  ///< of the final weights; none without data to evaluate on
  std::vector<Evaluation> evaluations;   ///< all evaluations of the run, in order
  double samples_per_s = 0;              ///< training samples of all ranks divided by the time spent in steps
  std::string params_sha256;             ///< SHA-256 of the final weights: see params_sha256() in named_tensors.h
  int world_size = 1;
  std::int64_t global_batch_size = 0;  ///< samples of all ranks in one batch
  std::int64_t steps = 0;              ///< optimizer steps, including earlier parts of a resumed run
  std::int64_t skipped_steps = 0;      ///< those of them whose gradients overflowed (loss_scaler)
  std::int64_t epochs = 0;             ///< complete epochs
  double seconds = 0;     ///< time spent in steps and their callbacks, including earlier parts of a resumed run
  std::string stopped{};  ///< why a callback stopped the run; empty: no callback did
  TimeDivision times{};
  std::string backend;
  std::string device;
  NamedTensors weights{};  ///< parameters and buffers at the end; they share memory with the model where it is whole
  /// The signal that ended the run early (SIGTERM where only other ranks got one): the newest checkpoint holds
  /// the completed steps, and there is no evaluation, no hash and no result.json.
  std::optional<int> ended_by = std::nullopt;
  /// Set after such a signal: as long as a copy of this pointer exists, further signals are only recorded.
  std::shared_ptr<StopSignals> signals = nullptr;
};

}  // namespace lockstep::train
