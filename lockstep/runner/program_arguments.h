// The command line of a training program.
#pragma once

#include <lockstep/runner/foreign_arguments.h>
#include <lockstep/train/config.h>
#include <lockstep/train/parts.h>
#include <lockstep/world/start.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::runner {

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
bool answers_about_parts(const ProgramArguments& arguments, train::RunConfig defaults);

/// Every key that this configuration can have, with type, range and default.
void print_keys(const train::RunConfig& config);

/// The names of `kind`'s parts, such as models, with one line about each. Error(invalid_argument) for another kind.
void print_parts(const train::Parts& parts, const std::string& kind);

/// Error(invalid_argument) for the name of a YAML file in place of KEY=VALUE.
void refuse_file_without_flag(const ProgramArguments& arguments, const std::string& command);

/// The command of one rank of the same program: `program` (with a subcommand, if it has one), and these arguments.
std::vector<std::string> rank_command(std::vector<std::string> program, const ProgramArguments& arguments);

}  // namespace lockstep::runner
