// The arguments of `lockstep run` and `lockstep launch` before CLI11 parses them: the spelling of flags, where PROGRAM
// begins, and defaults from the environment as in torchrun (PET_NPROC_PER_NODE=4 is --nproc-per-node 4).
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

/// "log-dir" for "log_dir", because torchrun accepts both.
inline std::string with_dashes(std::string_view text) {
  std::string result(text);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

/// A flag with a value from a variable.
struct PetDefault {
  std::string flag;  ///< long name without dashes in front
  std::string variable;
  std::string value;
};

/// "PET_LOG_DIR" for the option --log-dir; empty for an option without a variable (--help, and options that torchrun
/// exempts).
std::string pet_variable_of(const CLI::App& command, const CLI::Option& option);

/// Gives each option of `command` that is not among `given` (by the command line) the value of its variable; to be
/// called before `command` is parsed. An empty variable counts as not set. Flags without a value are on when
/// their variable is an integer other than 0; Error(environment) naming the variable when it is not an integer. Returns
/// the values that were set. No effect when --help is given.
std::vector<PetDefault> apply_pet_defaults(CLI::App& command, std::span<const CLI::Option* const> given,
                                           const Environment& environment);

/// `message`, followed by the variables of the flags that it mentions, because the user did not write these flags:
/// "... (from PET_NNODES=x)".
std::string name_variables(const std::string& message, std::span<const PetDefault> defaults);

/// The same for an error.
Error name_variables(const Error& error, std::span<const PetDefault> defaults);

/// The arguments of `lockstep run`: flags in torchrun's syntax, then the program with its own arguments.
struct RunLine {
  std::vector<std::string> flags;         ///< as `command` defines them
  std::vector<const CLI::Option*> given;  ///< the options among them
  std::vector<std::string> program;       ///< PROGRAM ARGS...; empty: no program
};

/// Splits PROGRAM ARGS... off `words`, because this program does not parse them. A "--" before PROGRAM is dropped.
/// Flags are found by their long names with dashes or underscores, by a unique prefix, and by their short names with
/// the value in the next or in the same argument (-r3). A flag that may lack its value (--dashboard) takes the next
/// argument where that is a number or ends in one after a colon ("8080", "host:8080"), else it has the value 0.
/// Error(invalid_argument) when a flag is unknown, ambiguous, or lacks its value.
RunLine read_run_line(const CLI::App& command, const std::vector<std::string>& words);

/// For the launchers: spells the flags as CLI11 defines them, moves PROGRAM ARGS... to `program`, sets the defaults of
/// flags, and returns these defaults. No effect for other commands.
std::vector<PetDefault> prepare_launcher(CLI::App& app, std::vector<std::string>& arguments,
                                         std::vector<std::string>& program);

}  // namespace lockstep::cli
