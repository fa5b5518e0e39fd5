#include <lockstep/base/process.h>
#include <lockstep/cluster/error_file.h>
#include <lockstep/cluster/exit_code.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/runner/scheduler_role.h>
#include <lockstep/train/auto_mode.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/run.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/stop_signals.h>

#include <fmt/format.h>

#include <csignal>
#include <cstdio>

namespace lockstep::runner {
namespace {

StartOptions start_options(const train::RunConfig& config, const ProgramStart& start) {
  StartOptions options;
  options.launcher = start.launcher;
  options.nodes = train::node_list_of(config.parallel);
  options.arguments = start.init;
  options.devices_per_node = options.nodes.devices_per_node;
  options.cluster = config.cluster;
  return options;
}

std::string conclusion(const Start& start) { return start.ranks > 1 ? describe(start) : describe(start.world); }

/// Each rank is this command again, and finds in its environment which one it is.
int start_this_node(const Start& start, const std::vector<std::string>& command) {
  fmt::print("{}\n", conclusion(start));
  std::fflush(stdout);
  cluster::LaunchOptions options;
  options.program.command = command;
  options.processes = start.ranks;
  options.first_rank = start.world;
  const cluster::LaunchResult result = cluster::launch(options);
  std::fputs(result.report.c_str(), stderr);
  return result.exit_code;
}

/// A batch system asks by SIGTERM (or SIGUSR1, before it does) and may start the run again; a person asks by Ctrl-C.
int exit_code_of(const train::RunResult& result) {
  if (!result.ended_by) return cluster::kOk;
  // Slurm's KillOnBadExit, for one, tells the ranks once more as soon as the first of them has ended.
  result.signals->ignore_for_good();
  const std::string signal = signal_name(*result.ended_by);
  cluster::report_failure(fmt::format("{} ended the run early, after step {}", signal, result.steps), "ended_early");
  return *result.ended_by == SIGTERM || *result.ended_by == SIGUSR1 ? cluster::kEndedEarly : 128 + *result.ended_by;
}

void print_dry_run(const std::string& process, const train::RunConfig& config, const train::Program& program,
                   int ranks) {
  fmt::print("{}\n\n{}\n", process, train::describe_run(config, program));
  if (ranks > 0 && train::is_auto_mode(config.parallel)) {
    fmt::print("\n{}", train::describe_plan(config, program, ranks));
  }
}

}  // namespace

int train_as_rank(const train::RunConfig& config, const train::Program& program, const World& world) {
  return exit_code_of(train::run_training(config, program, world));
}

int run_program(const train::RunConfig& config, const std::function<train::Program()>& make,
                const ProgramStart& program_start, const RankAction& act) {
  if (is_scheduler(program_start.launcher, config.cluster)) {
    if (!program_start.dry_run) return run_scheduler(config.cluster);
    print_dry_run("the scheduler of a job", config, make(), 0);
    return cluster::kOk;
  }
  const Start start = detect_start(start_options(config, program_start));
  if (program_start.dry_run) {
    if (start.world.rank <= 0) print_dry_run(conclusion(start), config, make(), start.world.size);
    return cluster::kOk;
  }
  if (start.ranks > 1) return start_this_node(start, program_start.rank_command);
  return act(config, make(), start.world);
}

}  // namespace lockstep::runner
