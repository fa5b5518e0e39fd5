// A training program as a process: what its command line, its configuration and its environment make of it.
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
  /// The command of one rank, where this process has to start the ranks of its node: this program, its arguments, and
  /// a launcher of its own. Empty: the command of this process.
  std::vector<std::string> rank_command{};
};

/// What the process is, by its environment and this configuration; and that in words. Errors as detect_start().
Start find_start(const train::RunConfig& config, const ProgramStart& start);
std::string conclusion(const Start& start);

/// What a program does with its Trainer, such as training.
using TrainerAction = std::function<void(Trainer&)>;
void just_train(Trainer& trainer);

/// Acts, or prints what it would do: an exit code (cluster/failure.h). `make` is called only where the program is
/// needed. Throws what the action throws.
int run_program(const train::RunConfig& config, std::function<train::Program()> make, const ProgramStart& start,
                const TrainerAction& act = just_train);

}  // namespace lockstep::runner
