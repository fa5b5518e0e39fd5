// A whole training run, as the command `lockstep train` does it.
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/program.h>
#include <lockstep/train/reports.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train {

class StopSignals;

/// The result of a run, the same on every rank.
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

/// Trains as this rank of `world`: connects to the other ranks, loads data, trains, evaluates, and writes to
/// system.work_dir
///
///     config.yaml        the whole configuration, defaults included
///     log/rank.N         each rank's log
///     metrics.jsonl      one JSON object a logged step: epoch, step, loss, lr, samples_per_s
///     loss.svg           the loss curve
///     checkpoints/       safetensors files with the state of the run
///     model.safetensors  the final weights
///     result.json        the result
///
/// SIGTERM, SIGUSR1, SIGINT or SIGHUP on any rank end the run after the current step, on all ranks, with a
/// checkpoint: the same configuration continues from there.
///
/// An exception on one rank ends the run on all ranks: the other ranks throw Error(peer_lost) with its reason. Changes
/// global state of the process: the log, libtorch's number of threads, determinism mode and random generator and, until
/// it returns, the signal handlers. Not thread-safe.
RunResult run_training(const RunConfig& config, const Program& program, const World& world);

/// The same with the model and the data that the configuration names. lockstep::Trainer (runner/trainer.h) does this
/// for a process whose rank is not detected yet.
RunResult run_training(const RunConfig& config, const World& world);

}  // namespace lockstep::train
