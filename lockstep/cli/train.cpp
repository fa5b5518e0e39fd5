// `lockstep train`: a training run from one YAML file.
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/programs.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/parts.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kTrainFooter =
    "The same command works alone, under 'lockstep run', mpirun and srun, with torchrun's variables set by hand, from\n"
    "a rank table, on each node of parallel.nodes, in a cloud's containers, and with MS_ROLE, which makes it a worker\n"
    "or the scheduler (docs/scheduler.md). Its first line has its rank, with --verbose also the variables that gave\n"
    "it.\n"
    "\n"
    "Results go to system.work_dir: result.json, metrics.jsonl, loss.svg, log/rank.N, checkpoints/, model.safetensors. "
    "A run\n"
    "that was killed goes on from its newest checkpoint when the same command is given again (checkpoint.resume).\n"
    "What differs from that run is shown, and needs checkpoint.allow_changes where it shapes the result "
    "(docs/errors.md).\n"
    "\n"
    "SIGTERM or SIGUSR1 to any rank ends the run after the step it is in, on all ranks, with a checkpoint; so does\n"
    "Ctrl-C, and a second one ends it at once.\n"
    "\n"
    "Exit code: 0 when trained to the end, 1 when the run failed, 2 when the command line, the configuration or the\n"
    "environment is wrong, 75 when SIGTERM or SIGUSR1 ended it early (start it again), 130 after Ctrl-C.\n"
    "\n"
    "Examples:\n"
    "  lockstep train --config configs/mlp_mnist.yaml --dry-run\n"
    "  lockstep train --config configs/mlp_mnist.yaml data.root=data/mnist train.epochs=1 system.work_dir=out/mlp\n"
    "  lockstep run --nproc-per-node 2 lockstep train --config configs/resnet20_cifar10.yaml data.root=data/cifar10\n"
    "  mpirun -n 2 lockstep train --config configs/resnet20_cifar10.yaml data.root=data/cifar10";

struct TrainArguments : runner::ProgramArguments {
  bool verify_plan = false;
};

constexpr std::int64_t kStepsToVerify = 5;

std::vector<std::string> rank_command(const TrainArguments& arguments) {
  auto command = runner::rank_command({this_program().string(), "train"}, arguments);
  if (arguments.verify_plan) command.emplace_back("--verify-plan");
  return command;
}

int train_or_describe(const TrainArguments& arguments, const KnownParts& parts) {
  if (runner::answers_about_parts(arguments, train::ResolvedRun({}, parts))) return kOk;
  runner::refuse_file_without_flag(arguments, "lockstep train");
  if (arguments.config.empty()) {
    fail(ErrorKind::invalid_argument, "train", "--config FILE is missing; configs/ holds some to begin with");
  }
  train::ResolvedRun config = train::load_run_config(arguments.config, runner::all_overrides(arguments), parts);
  if (arguments.verify_plan && config.parallel.verify_plan == 0) {
    config.parallel.verify_plan = kStepsToVerify;
    train::check_run_config(config);
  }
  return runner::run_program(config, [&] { return train::configured_program(config); },
                             {.launcher = arguments.launcher,
                              .init = arguments.init,
                              .dry_run = arguments.dry_run,
                              .rank_command = rank_command(arguments)});
}

}  // namespace

void add_train(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a model as one YAML file describes it");
  const auto arguments = std::make_shared<TrainArguments>();
  runner::add_program_options(*command, *arguments);
  command->add_flag("--verify-plan,--verify_plan", arguments->verify_plan,
                    "With parallel.mode auto: five steps by the plan, five by data parallel; the faster goes on");
  command->footer(kTrainFooter);
  command->callback([=, &chosen] { chosen = [=] { return train_or_describe(*arguments, parts); }; });
}

}  // namespace lockstep::cli
