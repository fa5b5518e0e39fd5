// The help texts and flags of `lockstep run` and `lockstep launch`, assembled into cluster::LaunchOptions.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/run_arguments.h>
#include <lockstep/cluster/flag_values.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr const char* kFlags =
    "Flags are those of {0}: with dashes or underscores, as --flag value or --flag=value, or shortened to a\n"
    "beginning that only one flag has. The variable PET_<FLAG> is the default of a flag: PET_NPROC_PER_NODE=4.\n"
    "Switches are on when theirs is a number other than 0.\n";

constexpr const char* kRunFooter =
    "Each rank gets torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, ...), so C++ programs that\n"
    "call lockstep::init() and Python scripts that call torch.distributed.init_process_group() both work. The ranks'\n"
    "rendezvous is a store that this launcher hosts on a free port of its own: several jobs on one machine never\n"
    "collide.\n"
    "\n"
    "Everything after PROGRAM belongs to the program; 'lockstep' as PROGRAM is this same binary. In its arguments\n"
    "'${local_rank}' is replaced by the rank's. Ranks read nothing from the terminal.\n"
    "\n"
    "On several nodes give the command on each: the same with --rdzv_backend c10d and --rdzv_endpoint (nodes may join\n"
    "and leave with --nnodes MIN:MAX), its own --node_rank with --nnodes and the address of node 0, or the same with\n"
    "--nodes and --ctrl_port. Between hosts set LOCKSTEP_STORE_SECRET to the same text on all nodes, or, in a network\n"
    "that is the job's alone, LOCKSTEP_ALLOW_INSECURE=1. With --max_restarts all ranks of all nodes are restarted\n"
    "when one has failed and cannot be replaced alone.\n"
    "\n"
    "If a rank of a program that can go on from memory ('lockstep train') is killed, crashes or hangs, it alone is\n"
    "started again; the others keep their processes, and no completed step is lost (--max-restarts, --on-loss). If a\n"
    "rank fails, the others get SIGTERM, after the grace period they are killed, and the first failing rank's reason\n"
    "is printed. SIGTERM, SIGINT (Ctrl-C), SIGHUP and SIGQUIT are passed on to the ranks, which have the grace period\n"
    "to end; a second one kills them. SIGUSR1 is passed on and nothing more. Ranks of 'lockstep train' save a\n"
    "checkpoint after the step they are in. No process is left behind.\n"
    "\n"
    "Exit code: 0 when all ranks ended well, else that of the first rank that failed (128 + N for signal N), on all\n"
    "nodes; 75 when 'lockstep train' was ended by SIGTERM or SIGUSR1 and goes on when it is started again.\n"
    "\n"
    "Examples:\n"
    "  lockstep run --nproc-per-node 2 lockstep train --config configs/mlp_mnist.yaml\n"
    "  lockstep run --nproc-per-node 2 --servers 2 lockstep train --config run.yaml parallel.mode=parameter_server\n"
    "  lockstep run --nproc-per-node cpu ./my_program --verbose\n"
    "  lockstep run --nproc-per-node 4 train.py --epochs 3\n"
    "  lockstep run --nproc-per-node 4 --log-dir logs --tee 3 -m my_package.train\n"
    "  lockstep run --nodes 10.0.0.1,10.0.0.2 --ctrl_port 9988 --nproc-per-node 2 ./my_program\n"
    "  lockstep run --nnodes 2:4 --rdzv_backend c10d --rdzv_endpoint host0:29400 --max_restarts 3 ./my_program\n"
    "  lockstep run --nnodes 2 --node_rank 1 --master_addr 10.0.0.1 --master_port 6060 --nproc_per_node 2 ./my_program";

constexpr const char* kLaunchFooter =
    "The same as 'lockstep run', but as torch.distributed.launch does it: without --use_env each rank gets\n"
    "--local-rank=N as its first argument, besides the environment. 'lockstep run --help' describes the rest.\n"
    "\n"
    "Examples:\n"
    "  lockstep launch --nproc_per_node 2 train.py --epochs 3                   # train.py --local-rank=N --epochs 3\n"
    "  lockstep launch --nproc_per_node 2 --local_rank_name local_rank train.py # train.py --local_rank=N\n"
    "  lockstep launch --nproc_per_node 2 --use_env train.py --epochs 3         # train.py --epochs 3";

/// Wraps the text to lines that fit next to the column of names.
std::string wrapped(const std::string& text) {
  constexpr std::size_t kWidth = 90;
  std::istringstream words(text);
  std::string result;
  std::size_t column = 0;
  for (std::string word; words >> word; column += word.size() + 1) {
    const bool fits = column == 0 || column + word.size() <= kWidth;
    if (!fits) column = 0;
    if (!result.empty()) result += fits ? ' ' : '\n';
    result += word;
  }
  return result;
}

/// A formatter of our own, because CLI11 cannot describe the remaining arguments as the program, and would print all
/// spellings of a flag.
class RunFormatter final : public CLI::Formatter {
 public:
  explicit RunFormatter(std::string command) : command_(std::move(command)) {}

  std::string make_usage(const CLI::App*, std::string) const override {
    return fmt::format("Usage: lockstep {} [OPTIONS] PROGRAM [ARGS...]\n", command_);
  }

  std::string make_option_name(const CLI::Option* option, bool) const override {
    std::string names;
    for (const std::string& name : option->get_snames()) names += fmt::format("-{}, ", name);
    return names + (option->get_lnames().empty() ? "" : "--" + option->get_lnames().front());
  }

  std::string make_option_desc(const CLI::Option* option) const override { return wrapped(option->get_description()); }

 private:
  std::string command_;
};

void add_run_help(CLI::App& command, LaunchStyle style) {
  const bool run = style == LaunchStyle::run;
  command.formatter(std::make_shared<RunFormatter>(command.get_name()));
  command.footer(fmt::format(kFlags, run ? "torchrun" : "torch.distributed.launch") + "\n" +
                 (run ? kRunFooter : kLaunchFooter));
}

std::chrono::milliseconds grace_of(const RunArguments& arguments, const Environment& environment) {
  if (!arguments.grace.empty() && !arguments.shutdown_timeout.empty()) {
    refuse("--grace and --shutdown_timeout mean the same; give one of them");
  }
  constexpr std::string_view kVariable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const auto inherited = find(environment, kVariable).value_or("");
  const auto [name, text] = !arguments.grace.empty() ? std::pair("--grace", arguments.grace)
                            : !arguments.shutdown_timeout.empty()
                                ? std::pair("--shutdown_timeout", arguments.shutdown_timeout)
                            : !inherited.empty() ? std::pair(kVariable.data(), inherited)
                                                 : std::pair("--grace", std::string("30"));
  const auto seconds = parse_number(text);
  constexpr double kDay = 24 * 3600;
  if (!seconds || *seconds < 0 || *seconds > kDay) {
    refuse("{} must be a number of seconds from 0 to {}; got '{}'", name, kDay, text);
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

/// Servers are the last processes of the job; a variable gives them this role.
void add_servers(const RunArguments& arguments, cluster::LaunchOptions& options) {
  constexpr int kMostServers = 4096;
  const auto servers = parse_integer(arguments.servers);
  if (!servers || *servers < 0 || *servers > kMostServers) {
    refuse("--servers must be a number from 0 to {}; got '{}'", kMostServers, arguments.servers);
  }
  if (*servers == 0) return;
  if (node_count_of(arguments.nodes).most > 1 || !arguments.nodes.nodes.empty()) {
    refuse("--servers is for jobs on one node; on several, start a scheduler, workers and servers (MS_ROLE)");
  }
  options.processes += static_cast<int>(*servers);
  options.environment["LOCKSTEP_SERVERS"] = std::to_string(*servers);
}

/// `lockstep run lockstep train ...` starts this executable, independent of PATH. It reads LOCAL_RANK, and has no
/// argument for it.
void use_whole_program(cluster::RankProgram& program, const std::filesystem::path& whole) {
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
      option->group("Nodes, and their rendezvous");
  }
}

void add_ending_flags(CLI::App& command, RunArguments& arguments) {
  command.add_option("--grace", arguments.grace, "Seconds from SIGTERM to SIGKILL for the ranks")
      ->type_name("SECONDS")
      ->default_str("30")
      ->group("Ending");
  command.add_option("--shutdown-timeout", arguments.shutdown_timeout, "The same, as torchrun calls it")
      ->type_name("SECONDS")
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
  CLI::App* command =
      style == LaunchStyle::run
          ? app.add_subcommand("run", "Start N ranks of any program on this machine")
          : app.add_subcommand("launch", "The same, and pass --local-rank=N to a script that expects it");
  const auto arguments = std::make_shared<RunArguments>();
  command
      ->add_option("--nproc-per-node", arguments->processes,
                   "How many ranks: a number, cpu (one per CPU), gpu (one per GPU) or auto (per GPU, else per CPU)")
      ->type_name("N")
      ->default_str("1")
      ->group("Ranks");
  command
      ->add_option("--servers", arguments->servers,
                   "Parameter servers beside the ranks, for parallel.mode parameter_server; on one node")
      ->type_name("N")
      ->capture_default_str()
      ->group("Ranks");
  add_node_group(*command, arguments->nodes);
  add_program_flags(*command, style, arguments->program);
  add_output_flags(*command, arguments->output);
  add_page_flags(*command, arguments->page);
  add_ending_flags(*command, *arguments);
  add_torchrun_flags(*command, arguments->torchrun);
  add_msrun_flags(*command, arguments->msrun);
  add_run_help(*command, style);
  return {command, arguments};
}

void translate_arguments(RunArguments& arguments, const Environment& environment) {
  apply_msrun_flags(arguments.msrun, arguments.nodes, arguments.processes);
  apply_hosts(arguments.nodes, arguments.processes, environment);
  if (arguments.processes.empty()) arguments.processes = "1";
}

cluster::LaunchOptions launch_options_of(const RunArguments& arguments, LaunchStyle style,
                                         std::vector<std::string> program, const Surroundings& here) {
  check_torchrun_flags(arguments.torchrun);
  cluster::LaunchOptions options;
  options.program = program_of(arguments.program, style, std::move(program));
  use_whole_program(options.program, here.whole_program);
  options.processes = cluster::parse_process_count(arguments.processes, here.processors);
  add_servers(arguments, options);
  options.start_method = start_method_of(arguments.torchrun);
  options.run_id = arguments.nodes.rdzv_id;
  options.prefix = prefix_of(arguments.output, options.environment);
  options.output = output_of(arguments.output);
  options.replacements = replacements_of(arguments.nodes);
  options.page = page_of(arguments.page);
  options.ending.grace = grace_of(arguments, options.environment);
  options.virtual_local_rank = arguments.torchrun.virtual_local_rank;
  check_virtual_local_rank(arguments.torchrun, options.processes, options.environment);
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
        fmt::format("{} is not Python and gets no --local-rank=N; LOCAL_RANK has the same value (--use_env). "
                    "--local_rank_name NAME passes it anyway",
                    name));
  }
  if (auto remark = judge_outer_launcher(arguments.nodes, options.environment)) remarks.push_back(std::move(*remark));
  for (auto& remark : remarks_on_msrun(arguments.msrun)) remarks.push_back(std::move(remark));
  return remarks;
}

void tell(const std::vector<std::string>& remarks) {
  for (const auto& remark : remarks) fmt::print(stderr, "lockstep run: {}\n", remark);
}

}  // namespace lockstep::cli
