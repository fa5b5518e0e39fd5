// The command line of a rank: the user's program, and the macros in it.
#pragma once

#include <lockstep/base/environment.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// Replacement of "${name}" in arguments and prefixes.
using Macros = std::map<std::string, std::string, std::less<>>;

/// `text` with "${name}" replaced for each name in `macros`; other text stays unchanged. Values are not expanded again.
std::string replace_macros(std::string_view text, const Macros& macros);

/// The way in which a program is run.
enum class ProgramKind {
  detect,      ///< a file *.py that is not executable by Python, anything else directly
  executable,  ///< directly (--no_python)
  script,      ///< by Python, whatever its file name is (--run_path)
  module,      ///< by `python -m`
};

struct RankProgram {
  /// The program and its arguments, in which "${local_rank}" stands for the rank's number.
  std::vector<std::string> command;
  ProgramKind kind = ProgramKind::detect;
  /// "local-rank": "--local-rank=N" is put before the program's own arguments. Empty: no such argument.
  std::string local_rank_option{};
};

/// Whether the program is a Python script or module: one that Python runs here, a file named *.py, or a file with
/// Python in its first line ("#!/usr/bin/env python3").
bool is_python(const RankProgram& program, const Environment& environment);

/// The words to execute for one rank. Python is `python3 -u` (unbuffered, because its output goes into a pipe), or the
/// value of PYTHON_EXEC. Error(invalid_argument) when there is no program.
std::vector<std::string> command_of_rank(const RankProgram& program, int local_rank, const Environment& environment);

}  // namespace lockstep::cluster
