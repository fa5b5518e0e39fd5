// The trainer of a program: training, evaluation and prediction of the program's own parts, in each way in which
// `lockstep train` is started.
//
//   int main() {
//     auto net = std::make_shared<Net>();
//     lockstep::train::RunConfig config;
//     config.train.epochs = 10;
//     lockstep::Trainer trainer({.model = net,
//                                .task = lockstep::train::supervised<Net>(
//                                    [](const auto& output, const auto& target) { return torch::mse_loss(output,
//                                    target); }),
//                                .data = {training_data, test_data},
//                                .optimizer = [](const auto& parameters) {
//                                  return std::make_unique<torch::optim::Adam>(parameters, 1e-3);
//                                }},
//                               config);
//     trainer.train();
//     return trainer.exit_code();
//   }
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>
#include <lockstep/train/trained_run.h>
#include <lockstep/world/world.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep {

namespace runner {
struct ProgramStart;
}

/// One rank's part of a job. The same calls in the same order on all ranks.
///
/// The first call detects the role of the process (world.h, with parallel.nodes and the section `cluster`): a rank,
/// which connects to the other ranks until the Trainer is destroyed; the only process of its node, which starts the
/// node's ranks as copies of itself, with its arguments, and waits for their end; or the scheduler of a job, until the
/// job ends. Processes that are not a rank do nothing else: their results are empty, and is_rank() is false.
///
/// Changes global state of the process: the log, libtorch's number of threads, determinism mode and random generator
/// and, until train() returns, the signal handlers. Not thread-safe. An exception on one rank ends the run on all
/// ranks, after a report to the launcher: the other ranks throw Error(peer_lost) with its reason.
class Trainer {
 public:
  /// Parts that are empty in `program`, and all settings, are taken from `config`: one of them must have model and
  /// data. `world`: the world of this process, if the program has it (spawn()).
  explicit Trainer(train::Program program, train::RunConfig config = {}, std::optional<World> world = std::nullopt);
  /// The same with a configuration that was read: load_run_config(), parse_run_config().
  Trainer(train::Program program, train::ResolvedRun run, std::optional<World> world = std::nullopt);

  /// For programs with a command line (run_program.h in the source). `make` is called in ranks only.
  Trainer(std::function<train::Program()> make, train::ResolvedRun run, const runner::ProgramStart& start);

  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Trains to the end, from the newest checkpoint if there is one (checkpoint.resume). A module that the program gave
  /// then has the trained weights; so has the result. Ranks that are lost during training are replaced if the launcher
  /// does so (docs/surviving.md). Writes to system.work_dir
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
  train::RunResult train();

  /// The metrics over the test split, with the weights at the end of train(); before train(), with those of resume(),
  /// else model.weights, the program's module, or random weights. Writes no file.
  train::Evaluation evaluate();

  /// What the task predicts for each sample of the test split, or of `dataset`, in their order: the same on all ranks,
  /// in memory. Weights as in evaluate(). Error(unsupported) for a task without Task::predict.
  /// `folder`: for the task's files of single samples (Task::leave_files); it must exist. Empty: no files.
  train::Prediction predict(std::shared_ptr<const samples::Dataset> dataset = nullptr,
                            const std::filesystem::path& folder = {});

  /// Loads the weights of this checkpoint, or of the newest one, for evaluate() and predict(); train() continues from
  /// it.
  Trainer& resume(const std::optional<std::filesystem::path>& checkpoint = std::nullopt);

  /// Whether this process is a rank; detects the role if no other function was called before.
  bool is_rank();

  /// The number of this rank. Error(invalid_argument) for a process that is not a rank.
  const World& world();

  /// What main() should return: 0; 75 when SIGTERM or SIGUSR1 ended train() early, with a checkpoint, and 128 + N for
  /// another signal N; for a process that is not a rank, the exit code of its role.
  int exit_code() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The main function of a training program: as `lockstep train`, with a model, a task and data of the program.
//
//   int main(int argc, char** argv) {
//     return lockstep::train_main(argc, argv, [](const lockstep::train::RunConfig& config) {
//       return lockstep::train::Program{.model = ..., .task = ..., .data = ...};
//     });
//   }

/// Trains `make`'s program, in each way in which `lockstep train` is started, and returns the exit code. The command
/// line is that of `lockstep train`: --config FILE is optional, KEY=VALUE changes `defaults`, --help explains; after
/// the commands `eval` and `predict` it is that of these commands, with the program's model, task and data. The
/// section `program` of the configuration is for the program: read it with read_config<Options>(config.program,
/// "program") (base/config.h).
///
/// `make` is called once the configuration is complete, in each rank. Errors are printed and reported to the launcher.
int train_main(int argc, char** argv, const std::function<train::Program(const train::RunConfig&)>& make,
               train::RunConfig defaults = {}) noexcept;

/// The same for a program with the configuration in its source: `yaml`, read as by parse_run_config()
/// (program.h). KEY=VALUE changes it; there is no --config.
int train_main(int argc, char** argv, const train::Program& program, const std::string& yaml) noexcept;

/// The same for a program that adds parts (parts.h) which its configuration file names: --config FILE is required then.
int train_main(int argc, char** argv, train::Parts parts) noexcept;

}  // namespace lockstep
