#include <lockstep/base/error.h>
#include <lockstep/cli/program_flags.h>
#include <lockstep/cli/refuse.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr const char* kGroup = "Program";

cluster::ProgramKind kind_of(const ProgramFlags& flags) {
  using cluster::ProgramKind;
  if (flags.module && flags.no_python) refuse("--module and --no_python contradict: a module is run by Python");
  if (flags.module && flags.run_path) refuse("--module and --run_path contradict: PROGRAM is a module or a path");
  if (flags.module) return ProgramKind::module;
  if (flags.run_path) return ProgramKind::script;
  return flags.no_python ? ProgramKind::executable : ProgramKind::detect;
}

}  // namespace

void add_program_flags(CLI::App& command, LaunchStyle style, ProgramFlags& flags) {
  command.add_flag("-m,--module", flags.module, "PROGRAM is a Python module: python3 -m PROGRAM")->group(kGroup);
  command
      .add_flag("--no-python", flags.no_python,
                "PROGRAM runs by itself, whatever it is called (otherwise Python runs *.py that is not executable)")
      ->group(kGroup);
  command.add_flag("--run-path", flags.run_path, "Python runs PROGRAM, whatever it is called")->group(kGroup);
  if (style == LaunchStyle::run) {
    command.add_flag("--use-env", flags.use_env, "Always so: ranks read LOCAL_RANK from the environment")
        ->group(kGroup);
    return;
  }
  command
      .add_flag("--use-env", flags.use_env,
                "Ranks read LOCAL_RANK from the environment; do not pass --local-rank=N to a Python script")
      ->group(kGroup);
  command
      .add_option("--local-rank-name", flags.local_rank_option,
                  "What PROGRAM calls it (local-rank; scripts for PyTorch 1 want local_rank). Given, programs that are "
                  "not Python get it too")
      ->type_name("NAME")
      ->group(kGroup);
}

cluster::Program program_of(const ProgramFlags& flags, LaunchStyle style, std::vector<std::string> words) {
  if (words.empty()) {
    refuse("{}", style == LaunchStyle::run ? "no PROGRAM given; see 'lockstep run --help'"
                                           : "no PROGRAM given; see 'lockstep launch --help'");
  }
  cluster::Program program;
  program.kind = kind_of(flags);
  if (style == LaunchStyle::launch && !flags.use_env) {
    if (flags.no_python) {
      refuse(
          "'launch' with --no_python needs --use_env: only Python scripts expect --local-rank as their first argument");
    }
    if (flags.local_rank_option == "") refuse("--local_rank_name must not be empty; --use_env passes none");
  }
  program.command = std::move(words);
  const bool passes = style == LaunchStyle::launch && !flags.use_env;
  if (passes && (flags.local_rank_option || cluster::is_python(program, current_environment()))) {
    program.local_rank_option = flags.local_rank_option.value_or("local-rank");
  }
  return program;
}

}  // namespace lockstep::cli
