// `lockstep run`: starts the ranks of a job on this machine.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/parse.h>
#include <lockstep/cli/command.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/process_count.h>
#include <lockstep/cluster/store_host.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
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
    "If a rank fails, the others are asked to end (SIGTERM), after the grace period they are killed, and the first "
    "failing\n"
    "rank's reason is printed. Ctrl-C is passed on to the ranks; a second one kills them. No process is left behind.\n"
    "\n"
    "Exit code: 0 when all ranks ended well, else that of the first rank that failed (128 + N for signal N).\n"
    "\n"
    "Examples:\n"
    "  lockstep run --nproc-per-node 2 lockstep train --config configs/mlp_mnist.yaml\n"
    "  lockstep run --nproc-per-node cpu ./my_program --verbose\n"
    "  lockstep run --nproc-per-node 4 python3 train.py --epochs 3";

/// CLI11 does not know that what it leaves over is the program.
class ProgramUsage final : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: lockstep run [OPTIONS] PROGRAM [ARGS...]\n";
  }
};

struct RunArguments {
  std::string processes = "1";
  std::string grace = "10";
  bool no_prefix = false;
};

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// `lockstep run lockstep train ...` starts this very program, whatever PATH holds.
void use_this_program(std::string& program) {
  if (program == "lockstep") program = std::filesystem::read_symlink("/proc/self/exe");
}

/// What CLI11 left over is the program, unless it is an option that does not exist.
std::vector<std::string> program_of(const CLI::App& command) {
  std::vector<std::string> program = command.remaining();
  if (program.empty()) fail(ErrorKind::invalid_argument, "run", "no PROGRAM given; see 'lockstep run --help'");
  if (program.front().starts_with('-')) {
    const std::string name = program.front().substr(0, program.front().find('='));
    fail(ErrorKind::invalid_argument, "run", "there is no option '{}'{}", name,
         did_you_mean(name, options_of(command)));
  }
  use_this_program(program.front());
  return program;
}

std::chrono::milliseconds grace_of(const std::string& text) {
  const auto seconds = parse_number(text);
  constexpr double kDay = 24 * 3600;
  if (!seconds || *seconds < 0 || *seconds > kDay) {
    fail(ErrorKind::invalid_argument, "run", "--grace must be a number of seconds from 0 to {}; got '{}'", kDay, text);
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

int run(const RunArguments& arguments, const CLI::App& command) {
  cluster::LaunchOptions options;
  options.command = program_of(command);
  options.processes =
      cluster::parse_process_count(arguments.processes, {cluster::usable_cpus(), cluster::usable_gpus()});
  options.prefix = !arguments.no_prefix;
  options.ending.grace = grace_of(arguments.grace);
  const cluster::LaunchResult result = cluster::launch(options);
  std::fputs(result.report.c_str(), stderr);
  return result.exit_code;
}

}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("run", "Start N ranks of any program on this machine");
  const auto arguments = std::make_shared<RunArguments>();
  command->formatter(std::make_shared<ProgramUsage>());
  command->prefix_command();
  command
      ->add_option("--nproc-per-node,--nproc_per_node", arguments->processes,
                   "How many ranks: a number, cpu (one per CPU), gpu (one per GPU) or auto (per GPU, else per CPU)")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--no-prefix,--no_prefix", arguments->no_prefix,
                    "Do not put '[rank N] ' before each line of output");
  command->add_option("--grace", arguments->grace, "Seconds from asking ranks to end to killing them")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->footer(kFooter);
  command->callback([=, &chosen] { chosen = [=] { return run(*arguments, *command); }; });
}

}  // namespace lockstep::cli
