// `lockstep run`: starts the ranks of a job on this machine, or this node's part of one on several.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/start_ranks.h>
#include <lockstep/cluster/process_count.h>
#include <lockstep/cluster/store_host.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kFooter =
    "Each rank gets torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, ...), so C++ programs that "
    "call\n"
    "lockstep::init() and Python scripts that call torch.distributed.init_process_group() both work. The ranks meet at "
    "a\n"
    "store that this launcher hosts on a free port of its own: several jobs on one machine never collide.\n"
    "\n"
    "Everything after PROGRAM belongs to the program; 'lockstep' as PROGRAM is this same binary. Ranks read nothing "
    "from\n"
    "the terminal.\n"
    "\n"
    "On several nodes give the command on each: the same with --nodes and --ctrl_port, or its own --node_rank with\n"
    "--nnodes and the address of node 0. Rank 0 then hosts the store.\n"
    "\n"
    "If a rank fails, the others are asked to end (SIGTERM), after the grace period they are killed, and the first\n"
    "failing rank's reason is printed. SIGTERM, SIGINT (Ctrl-C), SIGHUP and SIGQUIT are passed on to the ranks, which\n"
    "have the grace period to end; a second one kills them. SIGUSR1 is passed on and nothing more. Ranks of\n"
    "'lockstep train' save a checkpoint after the step they are in. No process is left behind.\n"
    "\n"
    "Exit code: 0 when all ranks ended well, else that of the first rank that failed (128 + N for signal N); 75 when\n"
    "'lockstep train' was ended by SIGTERM or SIGUSR1 and goes on when it is started again.\n"
    "\n"
    "Examples:\n"
    "  lockstep run --nproc-per-node 2 lockstep train --config configs/mlp_mnist.yaml\n"
    "  lockstep run --nproc-per-node cpu ./my_program --verbose\n"
    "  lockstep run --nproc-per-node 4 python3 train.py --epochs 3\n"
    "  lockstep run --nodes 10.0.0.1,10.0.0.2 --ctrl_port 9988 --nproc-per-node 2 ./my_program\n"
    "  lockstep run --nnodes 2 --node_rank 1 --master_addr 10.0.0.1 --master_port 6060 --nproc_per_node 2 ./my_program";

/// CLI11 does not know that what it leaves over is the program.
class ProgramUsage final : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: lockstep run [OPTIONS] PROGRAM [ARGS...]\n";
  }
};

struct RunArguments {
  std::string processes = "1";
  std::string grace = "30";
  bool no_prefix = false;
  bool use_env = false;
  NodeFlags nodes;
};

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// How many arguments an option takes up with its value. Error(invalid_argument) when there is no such option.
std::size_t length_of_option(const CLI::App& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr) {
    fail(ErrorKind::invalid_argument, "run", "there is no option '{}'{}; see 'lockstep run --help'", name,
         did_you_mean(name, option_names(command)));
  }
  const bool value_follows = option->get_items_expected_max() > 0 && name == argument;
  return value_follows ? 2 : 1;
}

/// `lockstep run lockstep train ...` starts this very program, whatever PATH holds.
void use_this_program(std::string& program) {
  if (program == "lockstep") program = this_program();
}

std::chrono::milliseconds grace_of(const std::string& text) {
  const auto seconds = parse_number(text);
  constexpr double kDay = 24 * 3600;
  if (!seconds || *seconds < 0 || *seconds > kDay) {
    fail(ErrorKind::invalid_argument, "run", "--grace must be a number of seconds from 0 to {}; got '{}'", kDay, text);
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

int run(const RunArguments& arguments, std::vector<std::string> program) {
  if (program.empty()) fail(ErrorKind::invalid_argument, "run", "no PROGRAM given; see 'lockstep run --help'");
  use_this_program(program.front());
  cluster::LaunchOptions options;
  options.command = std::move(program);
  options.processes =
      cluster::parse_process_count(arguments.processes, {cluster::usable_cpus(), cluster::usable_gpus()});
  options.first_rank = first_rank_of(arguments.nodes, options.processes, options.environment);
  options.run_id = arguments.nodes.rdzv_id;
  options.prefix = !arguments.no_prefix;
  options.ending.grace = grace_of(arguments.grace);
  return start_ranks(options);
}

}  // namespace

std::vector<std::string> split_off_program(const CLI::App& app, std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "run") return {};
  const CLI::App& command = *app.get_subcommand("run");
  std::size_t end = 1;
  while (end < arguments.size() && arguments[end].starts_with('-') && arguments[end] != "--") {
    end += length_of_option(command, arguments[end]);
  }
  end = std::min(end, arguments.size());
  const auto cut = arguments.begin() + static_cast<std::ptrdiff_t>(end);
  std::vector<std::string> program(cut, arguments.end());
  if (!program.empty() && program.front() == "--") program.erase(program.begin());
  arguments.erase(cut, arguments.end());
  return program;
}

void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
  CLI::App* command = app.add_subcommand("run", "Start N ranks of any program on this machine");
  const auto arguments = std::make_shared<RunArguments>();
  command->formatter(std::make_shared<ProgramUsage>());
  command
      ->add_option("--nproc-per-node,--nproc_per_node", arguments->processes,
                   "How many ranks: a number, cpu (one per CPU), gpu (one per GPU) or auto (per GPU, else per CPU)")
      ->type_name("N")
      ->capture_default_str();
  add_node_flags(*command, arguments->nodes);
  command->add_flag("--use-env,--use_env", arguments->use_env, "Always so: ranks read LOCAL_RANK from the environment");
  command->add_flag("--no-prefix,--no_prefix", arguments->no_prefix,
                    "Do not put '[rank N] ' before each line of output");
  command->add_option("--grace", arguments->grace, "Seconds from asking ranks to end to killing them")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->footer(kFooter);
  command->callback([=, &chosen, &program] { chosen = [=, &program] { return run(*arguments, program); }; });
}

}  // namespace lockstep::cli
