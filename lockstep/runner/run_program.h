// A training program as a process: what its command line, its configuration and its environment make of it.
#pragma once

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
  /// a launcher of its own.
  std::vector<std::string> rank_command;
};

/// What a rank does, such as training: an exit code.
using RankAction = std::function<int(const train::RunConfig&, const train::Program&, const World&)>;
int train_as_rank(const train::RunConfig& config, const train::Program& program, const World& world);

/// Is the scheduler of a job, starts the ranks of this node, prints what it would do, or acts as a rank: an exit code
/// (cluster/exit_code.h). `make` is called only where the program is needed. Throws what the action throws.
int run_program(const train::RunConfig& config, const std::function<train::Program()>& make, const ProgramStart& start,
                const RankAction& act = train_as_rank);

}  // namespace lockstep::runner
