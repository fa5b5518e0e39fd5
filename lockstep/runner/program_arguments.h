// The command line of a training program, with the flags of MMEngine's and MindOCR's training scripts beside ours
// (docs/coming_from.md).
#pragma once

#include <lockstep/train/parts.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/world/start.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::runner {

/// The flags of MMEngine's and MindOCR's scripts.
struct ForeignArguments {
  std::vector<std::string> options;  ///< KEY=VALUE
  std::string work_dir;
  std::vector<std::string> resume;  ///< nothing, or one file, or a KEY=VALUE that follows the flag
  bool resumes = false;
  bool scales_lr = false;
  std::string local_rank;        ///< ignored: the rank is read from the environment
  bool ignores_unknown = false;  ///< unknown arguments, which a platform may add, are ignored with a warning
};

struct ProgramArguments {
  std::string config;  ///< empty: no file
  std::vector<std::string> overrides;
  std::string launcher = "auto";
  InitArguments init;
  bool dry_run = false;
  bool help_keys = false;
  std::string list;  ///< a kind of part; empty: train
  ForeignArguments foreign;
};

/// launcher_names(), in lines that fit the help of an option.
std::string launcher_choices();

/// Adds the options; `arguments` outlives `app`.
void add_program_options(CLI::App& app, ProgramArguments& arguments);

/// All KEY=VALUE, including those from other trainers' flags.
std::vector<std::string> all_overrides(const ProgramArguments& arguments);

/// Prints the output of --list and --help-keys, with the plugins of --config; false when neither is given.
bool answers_about_parts(const ProgramArguments& arguments, train::ResolvedRun defaults);

/// Error(invalid_argument) for the name of a YAML file in place of KEY=VALUE.
void refuse_file_without_flag(const ProgramArguments& arguments, const std::string& command);

/// The command of one rank of the same program: `program` (with a subcommand, if it has one), and these arguments.
std::vector<std::string> rank_command(std::vector<std::string> program, const ProgramArguments& arguments);

}  // namespace lockstep::runner
