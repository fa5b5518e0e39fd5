// Defaults of flags from the environment, as torchrun has them: PET_NPROC_PER_NODE=4 is --nproc-per-node 4.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>

#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

/// A flag that has its value from a variable.
struct PetDefault {
  std::string flag;  ///< long name without dashes in front
  std::string variable;
  std::string value;
};

/// "PET_LOG_DIR" for the option --log-dir; empty for one that has no variable (--help, and those that torchrun
/// exempts).
std::string pet_variable_of(const CLI::App& command, const CLI::Option& option);

/// Gives each option of `command` that is not among `given` (by the command line) the value of its variable; to be
/// called before `command` is parsed. A variable that is empty counts as not set. Flags without a value are on when
/// theirs is an integer other than 0; Error(environment) naming the variable when it is no integer. Returns what was
/// taken. Does nothing when --help is given.
std::vector<PetDefault> apply_pet_defaults(CLI::App& command, std::span<const CLI::Option* const> given,
                                           const Environment& environment);

/// `message` with the variables of the flags that it mentions behind it, for the user who never wrote such a flag:
/// "... (from PET_NNODES=x)".
std::string name_variables(const std::string& message, std::span<const PetDefault> defaults);

/// The same for an error.
Error name_variables(const Error& error, std::span<const PetDefault> defaults);

}  // namespace lockstep::cli
