// What an application beside lockstep/ (apps/) adds to the program `lockstep`. cli/ includes no application: the main
// functions in apps/lockstep/ pass these values.
#pragma once

#include <lockstep/cli/command.h>

#include <functional>
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

/// None of it needs libtorch, because the small program executes these commands.
struct AppCommands {
  std::function<void(CLI::App& app, Action& chosen)> add;  ///< adds subcommands of `lockstep`, as in command.h
  std::vector<Converter> converters;
};

}  // namespace lockstep::cli
