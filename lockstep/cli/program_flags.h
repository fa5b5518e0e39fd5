// The options of `lockstep run` and `lockstep launch` that say how PROGRAM is run.
#pragma once

#include <lockstep/cluster/rank_command.h>

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Whose ways a command has: torch.distributed.run's or torch.distributed.launch's.
enum class LaunchStyle { run, launch };

struct ProgramFlags {
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool use_env = false;
  std::optional<std::string> local_rank_option{};  ///< of LaunchStyle::launch; nullopt: "local-rank", for Python only
};

void add_program_flags(CLI::App& command, LaunchStyle style, ProgramFlags& flags);

/// `words` are PROGRAM and its arguments. Error(invalid_argument) when there are none, or for flags that contradict
/// each other.
cluster::Program program_of(const ProgramFlags& flags, LaunchStyle style, std::vector<std::string> words);

}  // namespace lockstep::cli
