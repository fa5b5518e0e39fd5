// The arguments of `lockstep run`: flags in torchrun's syntax, then the program with its own arguments.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

struct RunLine {
  std::vector<std::string> flags;         ///< as `command` knows them
  std::vector<const CLI::Option*> given;  ///< the options among them
  std::vector<std::string> program;       ///< PROGRAM ARGS...; empty: there is none
};

/// Cuts PROGRAM ARGS... off `words`: they are not this program's to parse. A "--" before PROGRAM is dropped. Flags are
/// found by their long names with dashes or underscores, by a beginning that only one of them has, and by their short
/// names with the value behind or in the same word (-r3). Error(invalid_argument) when a flag is none, could be
/// several, or lacks its value.
RunLine read_run_line(const CLI::App& command, const std::vector<std::string>& words);

}  // namespace lockstep::cli
