// What an application beside lockstep/ (apps/) adds to the program `lockstep`, and the two executables of `lockstep` as
// functions. cli/ includes no application: the main functions in apps/lockstep/ pass these values.
#pragma once

#include <lockstep/cli/command.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// The result of the conversion of a file, and remarks on it.
struct ConvertedFile {
  std::string text;
  std::vector<std::string> remarks;
};

/// A subcommand of `lockstep convert`.
struct Converter {
  std::string name;
  std::string help;
  std::string footer;
  std::string example;  ///< its arguments in an example of a command line
  std::function<ConvertedFile(const std::string& file)> convert;
};

/// None of it needs libtorch, because the small program executes these commands, so that an image of the operator needs
/// no libtorch.
struct AppCommands {
  std::function<void(CLI::App& app, Action& chosen)> add;  ///< adds subcommands of `lockstep`, as in command.h
  std::vector<Converter> converters;
};

/// The small program: starts ranks if that needs no libtorch, and executes the whole program otherwise. Errors
/// are printed to stderr.
int run_small_program(int argc, char** argv, const AppCommands& apps);

/// The whole program: parses the command, executes it, prints errors to stderr as `lockstep: error: ...`.
/// Configurations can name `parts`.
int run_whole_program(int argc, char** argv, const AppCommands& apps, const KnownParts& parts) noexcept;

/// `lockstep convert` and the commands of applications: parses and executes the command if `words` (without the
/// program) begin with one of them; nullopt: they do not. Errors: those of the command.
std::optional<int> run_plain_command(const std::vector<std::string>& words, const AppCommands& apps);

}  // namespace lockstep::cli
