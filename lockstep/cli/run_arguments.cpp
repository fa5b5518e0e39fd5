#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/job_shape.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cli/run_help.h>
#include <lockstep/cluster/signal_list.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <utility>

namespace lockstep::cli {
namespace {

std::chrono::milliseconds grace_of(const std::string& text) {
  const auto seconds = parse_number(text);
  constexpr double kDay = 24 * 3600;
  if (!seconds || *seconds < 0 || *seconds > kDay) {
    fail(ErrorKind::invalid_argument, "run", "--grace must be a number of seconds from 0 to {}; got '{}'", kDay, text);
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

/// `lockstep run lockstep train ...` starts this very program, whatever PATH holds. It reads LOCAL_RANK, and knows no
/// argument for it.
void use_whole_program(cluster::Program& program, const std::filesystem::path& whole) {
  const bool by_itself =
      program.kind == cluster::ProgramKind::detect || program.kind == cluster::ProgramKind::executable;
  std::string& name = program.command.front();
  if (!by_itself || (name != "lockstep" && !is_this_program(name))) return;
  name = whole.string();
  program.local_rank_option.clear();
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

}  // namespace

RunCommand add_run_command(CLI::App& app, LaunchStyle style) {
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
  return {command, arguments};
}

cluster::LaunchOptions launch_options_of(const RunArguments& arguments, LaunchStyle style,
                                         std::vector<std::string> program, const Surroundings& here) {
  check_torchrun_flags(arguments.torchrun);
  cluster::LaunchOptions options;
  options.program = program_of(arguments.program, style, std::move(program));
  use_whole_program(options.program, here.whole_program);
  options.processes = cluster::parse_process_count(arguments.processes, here.processors);
  options.start_method = start_method_of(arguments.torchrun);
  options.run_id = arguments.nodes.rdzv_id;
  options.prefix = prefix_of(arguments.output, options.environment);
  options.output = output_of(arguments.output);
  options.replacements = replacements_of(arguments.nodes);
  options.ending.grace = grace_of(arguments.grace);
  options.signals = cluster::parse_signals("--signals_to_handle", arguments.signals);
  options.environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = arguments.signals;
  judge_outer_launcher(arguments.nodes, options.environment);
  return options;
}

std::vector<std::string> remarks_on(const RunArguments& arguments, LaunchStyle style,
                                    const cluster::LaunchOptions& options, const Surroundings& here) {
  std::vector<std::string> remarks = missing_ranks(options.output, options.processes);
  const std::string& name = options.program.command.front();
  const bool passes_none = options.program.local_rank_option.empty() && name != here.whole_program;
  if (style == LaunchStyle::launch && !arguments.program.use_env && passes_none) {
    remarks.push_back(
        fmt::format("{} is not Python and gets no --local-rank=N; LOCAL_RANK says the same (--use_env). "
                    "--local_rank_name NAME passes it all the same",
                    name));
  }
  if (auto remark = judge_outer_launcher(arguments.nodes, options.environment)) remarks.push_back(std::move(*remark));
  return remarks;
}

void tell(const std::vector<std::string>& remarks) {
  for (const auto& remark : remarks) fmt::print(stderr, "lockstep run: {}\n", remark);
}

}  // namespace lockstep::cli
