// The result of a whole training run.
#pragma once

#include <lockstep/train/named_tensors.h>
#include <lockstep/train/reports.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

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
