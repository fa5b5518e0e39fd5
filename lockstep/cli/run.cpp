// `lockstep run` and `lockstep launch`: start the ranks of a job on this machine, or this node's part of one on
// several.
#include <lockstep/base/error.h>
#include <lockstep/base/spawn.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/elastic_start.h>
#include <lockstep/cli/job_shape.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/refuse.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/store_host.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

namespace lockstep::cli {
namespace {

bool is_there(const std::string& program, const Environment& environment) {
  try {
    lockstep::detail::find_program(program, environment);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// `lockstep run ... train` is short for nothing.
void refuse_bare_command(const CLI::App& app, const cluster::LaunchOptions& options) {
  const std::string& name = options.program.command.front();
  const auto commands = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  const bool by_itself =
      options.program.kind != cluster::ProgramKind::module && options.program.kind != cluster::ProgramKind::script;
  if (commands.empty() || !by_itself || is_there(name, options.environment)) return;
  refuse(
      "there is no program '{}' in PATH; did you mean 'lockstep run ... lockstep {} ...'? What comes behind the "
      "flags is a program, and lockstep is one",
      name, name);
}

int run(const CLI::App& app, const RunArguments& arguments, LaunchStyle style, std::vector<std::string> program) {
  const Surroundings here = {{cluster::usable_cpus(), cluster::usable_gpus()}, this_program()};
  auto options = launch_options_of(arguments, style, std::move(program), here);
  refuse_bare_command(app, options);
  tell(remarks_on(arguments, style, options, here));
  if (needs_agent(arguments.nodes)) return start_agent(arguments.nodes, options);
  options.first_rank = first_rank_of(arguments.nodes, options.processes, options.environment);
  const cluster::LaunchResult result = cluster::launch(options);
  std::fputs(result.report.c_str(), stderr);
  return result.exit_code;
}

void add_command(CLI::App& app, LaunchStyle style, const std::vector<std::string>& program, Action& chosen) {
  const auto [command, arguments] = add_run_command(app, style);
  command->callback([style, arguments = arguments, &app, &chosen, &program] {
    chosen = [style, arguments, &app, &program] { return run(app, *arguments, style, program); };
  });
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
  add_command(app, LaunchStyle::run, program, chosen);
}

void add_launch(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
  add_command(app, LaunchStyle::launch, program, chosen);
}

}  // namespace lockstep::cli
