// `lockstep run` and `lockstep launch`: start the ranks of a job on this machine, or this node's part of one on
// several.
#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/elastic_start.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/output_flags.h>
#include <lockstep/cli/program_flags.h>
#include <lockstep/cli/run_help.h>
#include <lockstep/cli/start_ranks.h>
#include <lockstep/cli/torchrun_flags.h>
#include <lockstep/cluster/process_count.h>
#include <lockstep/cluster/signal_list.h>
#include <lockstep/cluster/store_host.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

struct RunArguments {
  std::string processes = "1";
  std::string grace = "30";
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  NodeFlags nodes;
  ProgramFlags program;
  OutputFlags output;
  TorchrunFlags torchrun;
};

std::chrono::milliseconds grace_of(const std::string& text) {
  const auto seconds = parse_number(text);
  constexpr double kDay = 24 * 3600;
  if (!seconds || *seconds < 0 || *seconds > kDay) {
    fail(ErrorKind::invalid_argument, "run", "--grace must be a number of seconds from 0 to {}; got '{}'", kDay, text);
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

/// `lockstep run lockstep train ...` starts this very program, whatever PATH holds.
void use_this_program(cluster::Program& program) {
  const bool by_itself =
      program.kind == cluster::ProgramKind::detect || program.kind == cluster::ProgramKind::executable;
  if (by_itself && program.command.front() == "lockstep") program.command.front() = this_program();
}

int run(const RunArguments& arguments, LaunchStyle style, std::vector<std::string> program) {
  check_torchrun_flags(arguments.torchrun);
  cluster::LaunchOptions options;
  options.program = program_of(arguments.program, style, std::move(program));
  use_this_program(options.program);
  options.processes =
      cluster::parse_process_count(arguments.processes, {cluster::usable_cpus(), cluster::usable_gpus()});
  options.run_id = arguments.nodes.rdzv_id;
  options.prefix = prefix_of(arguments.output, options.environment);
  options.output = output_of(arguments.output);
  options.ending.grace = grace_of(arguments.grace);
  options.signals = cluster::parse_signals("--signals_to_handle", arguments.signals);
  options.environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = arguments.signals;
  for (const auto& line : missing_ranks(options.output, options.processes)) {
    fmt::print(stderr, "lockstep run: {}\n", line);
  }
  if (needs_agent(arguments.nodes)) return start_agent(arguments.nodes, options);
  options.first_rank = first_rank_of(arguments.nodes, options.processes, options.environment);
  return start_ranks(options);
}

void add_node_group(CLI::App& command, NodeFlags& flags) {
  add_node_flags(command, flags);
  const std::string unsorted = command.option_defaults()->get_group();
  for (CLI::Option* option : command.get_options({})) {
    if (option != command.get_help_ptr() && option->get_group() == unsorted)
      option->group("Nodes, and where they meet");
  }
}

void add_ending_flags(CLI::App& command, RunArguments& arguments) {
  command.add_option("--grace", arguments.grace, "Seconds from asking ranks to end to killing them")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group("Ending");
  command
      .add_option("--signals-to-handle", arguments.signals,
                  "Signals that are passed on to the ranks and end the job; others do to the launcher what they do to "
                  "any program")
      ->type_name("NAMES")
      ->capture_default_str()
      ->group("Ending");
}

void add_command(CLI::App& app, LaunchStyle style, const std::vector<std::string>& program, Action& chosen) {
  CLI::App* command = style == LaunchStyle::run
                          ? app.add_subcommand("run", "Start N ranks of any program on this machine")
                          : app.add_subcommand("launch", "The same, and pass --local-rank=N to a script that wants it");
  const auto arguments = std::make_shared<RunArguments>();
  command
      ->add_option("--nproc-per-node", arguments->processes,
                   "How many ranks: a number, cpu (one per CPU), gpu (one per GPU) or auto (per GPU, else per CPU)")
      ->type_name("N")
      ->capture_default_str()
      ->group("Ranks");
  add_node_group(*command, arguments->nodes);
  add_program_flags(*command, style, arguments->program);
  add_output_flags(*command, arguments->output);
  add_ending_flags(*command, *arguments);
  add_torchrun_flags(*command, arguments->torchrun);
  add_run_help(*command, style);
  command->callback([=, &chosen, &program] { chosen = [=, &program] { return run(*arguments, style, program); }; });
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
  add_command(app, LaunchStyle::run, program, chosen);
}

void add_launch(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
  add_command(app, LaunchStyle::launch, program, chosen);
}

}  // namespace lockstep::cli
