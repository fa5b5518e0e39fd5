// The role of a training program's process, from its command line, its configuration and its environment: a rank, a
// dry run, or the scheduler of a job.
#pragma once

#include <lockstep/runner/trainer.h>
#include <lockstep/train/program.h>
#include <lockstep/world/start.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::runner {

struct ProgramStart {
  std::string launcher = "auto";  ///< one of launcher_names()
  InitArguments init{};
  bool dry_run = false;
  /// The command of one rank, for a process that has to start the ranks of its node: this program, its arguments, and
  /// its own launcher. Empty: the command of this process.
  std::vector<std::string> rank_command{};
};

/// The role of the process, from its environment and this configuration, and a description of it. Errors as
/// detect_start().
Start find_start(const train::ResolvedRun& config, const ProgramStart& start);
std::string conclusion(const Start& start);

/// The action of a program with its Trainer, such as training.
using TrainerAction = std::function<void(Trainer&)>;
void just_train(Trainer& trainer);

/// Runs the action, or prints what it would do. Returns an exit code (cluster/failure.h). `make` is called only where
/// the program is needed. Throws the errors of the action.
int run_program(const train::ResolvedRun& config, std::function<train::Program()> make, const ProgramStart& start,
                const TrainerAction& act = just_train);

}  // namespace lockstep::runner
