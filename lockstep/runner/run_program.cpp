// The role of a process, and the choice between a dry run, which prints it and the plan, and an action of a Trainer.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/runner/scheduler.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/strategies.h>
#include <lockstep/train/run_group.h>

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace lockstep::runner {
namespace {

StartOptions start_options(const train::ResolvedRun& config, const ProgramStart& start) {
  StartOptions options;
  options.launcher = start.launcher;
  options.nodes = train::node_list_of(config.parallel);
  options.arguments = start.init;
  options.devices_per_node = options.nodes.devices_per_node;
  options.cluster = train::cluster_of(config);
  return options;
}

void print_dry_run(const std::string& process, const train::ResolvedRun& given, const train::Program& parts,
                   int ranks) {
  fmt::print("{}\n\n{}\n", process, train::describe_run(given, parts));
  if (ranks <= 0) return;
  const auto config = train::resolved_for(parts, given);
  const auto program = train::complete_program(parts, config);
  if (train::is_auto_mode(config.parallel)) {
    fmt::print("\n{}", train::describe_plan(config, program, ranks));
  } else {
    train::with_checked_strategies(config, program, ranks);  // it throws the same errors as the run
  }
}

}  // namespace

Start find_start(const train::ResolvedRun& config, const ProgramStart& start) {
  return detect_start(start_options(config, start));
}

std::string conclusion(const Start& start) { return start.ranks > 1 ? describe(start) : describe(start.world); }

void just_train(Trainer& trainer) { trainer.train(); }

int run_program(const train::ResolvedRun& config, std::function<train::Program()> make, const ProgramStart& start,
                const TrainerAction& act) {
  if (!start.dry_run) {
    Trainer trainer(std::move(make), config, start);
    act(trainer);
    return trainer.exit_code();
  }
  if (is_scheduler(start.launcher, train::cluster_of(config))) {
    print_dry_run("the scheduler of a job", config, make(), 0);
    return cluster::kOk;
  }
  const Start found = find_start(config, start);
  if (found.world.rank > 0) return cluster::kOk;
  try {
    train::require_world_fits(config, found.world);
    print_dry_run(conclusion(found), config, make(), found.world.size);
  } catch (const Error& error) {
    throw train::with_place(error, config.given);
  }
  return cluster::kOk;
}

}  // namespace lockstep::runner
