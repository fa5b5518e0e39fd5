// The trainer of a program: training, evaluation and prediction of the program's own parts, in each way in which
// `lockstep train` is started.
//
//   int main() {
//     auto net = std::make_shared<Net>();
//     lockstep::train::RunConfig config;
//     config.train.epochs = 10;
//     lockstep::Trainer trainer({.model = net,
//                                .task = lockstep::train::supervised<Net>(torch::mse_loss),
//                                .data = {training_data, test_data},
//                                .optimizer = [](const auto& parameters) {
//                                  return std::make_unique<torch::optim::Adam>(parameters, 1e-3);
//                                }},
//                               config);
//     trainer.train();
//     return trainer.exit_code();
//   }
#pragma once

#include <lockstep/train/config.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>
#include <lockstep/train/reports.h>
#include <lockstep/train/run.h>
#include <lockstep/train/task.h>
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
/// With the first call the process finds out what it is (world.h; parallel.nodes and the section `cluster` count, too):
/// a rank, which connects to the others and stays so until the Trainer is destroyed; the only process of its node,
/// which starts the node's ranks as copies of itself, with its arguments, and waits for their end; or the scheduler of
/// a job, until that is over. Processes that are no rank do nothing else: their results are empty, and is_rank() says
/// so.
///
/// Changes the process as train::run_training() does. Not thread-safe. Errors: those of run_training(), after the
/// launcher was told. All other ranks end, too, with the reason.
class Trainer {
 public:
  /// Parts that `program` leaves empty, and all settings, come from `config`: model and data must be in one of them.
  /// `world`: which rank this process is, where the program knows it (spawn()).
  explicit Trainer(train::Program program, train::RunConfig config = {}, std::optional<World> world = std::nullopt);

  /// For programs with a command line (run_program.h in the source). `make` is called in ranks only.
  Trainer(std::function<train::Program()> make, train::RunConfig config, const runner::ProgramStart& start);

  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Trains to the end, from the newest checkpoint if there is one (checkpoint.resume). A module that the program gave
  /// has the trained weights then; so has the result. Leaves the files that run.h lists. Ranks that are lost on the way
  /// are replaced where the launcher does so (docs/recovery.md).
  train::RunResult train();

  /// The metrics over the test split. Of the weights that train() ended with; before it, those of resume(); else
  /// model.weights, the program's own module, or random ones. Writes no file.
  train::Evaluation evaluate();

  /// What the task predicts for each sample of the test split, or of `dataset`, in their order: the same on all ranks,
  /// in memory. Weights as evaluate(). Error(unsupported) for a task without Task::predict.
  /// `folder`: gets the files of single samples that the task leaves (Task::leave_files); it must be there. Empty:
  /// none.
  train::Prediction predict(std::shared_ptr<const samples::Dataset> dataset = nullptr,
                            const std::filesystem::path& folder = {});

  /// Takes the weights of this checkpoint, or the newest one, for evaluate() and predict(), and train() goes on from
  /// there.
  Trainer& resume(const std::optional<std::filesystem::path>& checkpoint = std::nullopt);

  /// Whether this process is a rank; finds out, if nothing was called before.
  bool is_rank();

  /// Which one it is. Error(invalid_argument) for a process that is none.
  const World& world();

  /// What main() should return: 0; 75 when SIGTERM or SIGUSR1 ended train() early, with a checkpoint, and 128 + N for
  /// another signal N; for a process that is no rank, the exit code of what it did.
  int exit_code() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The main function of a training program: what `lockstep train` does, with a model, a task and data of one's own.
//
//   int main(int argc, char** argv) {
//     return lockstep::train_main(argc, argv, [](const lockstep::train::RunConfig& config) {
//       return lockstep::train::Program{.model = ..., .task = ..., .data = ...};
//     });
//   }

/// Trains `make`'s program, in each way in which `lockstep train` is started, and returns the exit code. The command
/// line is that of `lockstep train`: --config FILE is optional, KEY=VALUE changes `defaults`, --help explains; behind
/// the words `eval` and `predict` it is that of these commands, with the program's model, task and data. The
/// section `program` of the configuration is the program's own: read it with read_config<Options>(config.program,
/// "program") (base/config.h).
///
/// `make` is called once the configuration is complete, in each rank. Errors are printed and reported to the launcher.
int train_main(int argc, char** argv, const std::function<train::Program(const train::RunConfig&)>& make,
               train::RunConfig defaults = {}) noexcept;

/// The same for a program whose configuration stands in its source: `yaml`, read as parse_run_config() reads it
/// (program.h). KEY=VALUE changes it; there is no --config.
int train_main(int argc, char** argv, const train::Program& program, const std::string& yaml) noexcept;

/// The same for a program that adds parts (parts.h) which its configuration file names: --config FILE is required then.
int train_main(int argc, char** argv, train::Parts parts) noexcept;

}  // namespace lockstep
