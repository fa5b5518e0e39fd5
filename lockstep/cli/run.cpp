// `lockstep run` and `lockstep launch`: start the ranks of a job on this machine, or this node's part of one on
// several.
#include <lockstep/cli/command.h>
#include <lockstep/cli/elastic_start.h>
#include <lockstep/cli/job_shape.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cli/start_ranks.h>
#include <lockstep/cluster/store_host.h>

#include <CLI/CLI.hpp>
#include <utility>

namespace lockstep::cli {
namespace {

int run(const RunArguments& arguments, LaunchStyle style, std::vector<std::string> program) {
  const Surroundings here = {{cluster::usable_cpus(), cluster::usable_gpus()}, this_program()};
  auto options = launch_options_of(arguments, style, std::move(program), here);
  tell_of_missing_ranks(options);
  if (needs_agent(arguments.nodes)) return start_agent(arguments.nodes, options);
  options.first_rank = first_rank_of(arguments.nodes, options.processes, options.environment);
  return start_ranks(options);
}

void add_command(CLI::App& app, LaunchStyle style, const std::vector<std::string>& program, Action& chosen) {
  const auto [command, arguments] = add_run_command(app, style);
  command->callback([style, arguments = arguments, &chosen, &program] {
    chosen = [style, arguments, &program] { return run(*arguments, style, program); };
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
