// `lockstep train`: a training run from one YAML file.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/override_keys.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cli/scheduler.h>
#include <lockstep/cli/start_ranks.h>
#include <lockstep/cluster/error_file.h>
#include <lockstep/train/auto_mode.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/run.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/stop_signals.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kTrainFooter =
    "The same command works alone, under 'lockstep run', mpirun and srun, with torchrun's variables set by hand, from\n"
    "a rank table, on each node of parallel.nodes, in a cloud's containers, and with MS_ROLE, which makes it a worker "
    "or\n"
    "the scheduler (docs/scheduler.md). Its first line says which rank it is, and from which variables it knows.\n"
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

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string launcher = "auto";
  InitArguments init;
  bool dry_run = false;
  bool help_keys = false;
  bool verify_plan = false;
};

constexpr std::int64_t kStepsToVerify = 5;

void print_keys() {
  for (const ConfigKey& key : list_keys<train::RunConfig>()) {
    if (key.type.starts_with("section")) {
      fmt::print("\n{}: {}\n", key.path, key.doc);
      continue;
    }
    std::string facts = key.type;
    if (!key.allowed.empty()) facts += ", " + key.allowed;
    facts += key.default_value == "required" ? ", required" : fmt::format(", default {}", key.default_value);
    fmt::print("  {} ({})\n      {}\n", key.path, facts, key.doc);
  }
}

StartOptions start_options(const TrainArguments& arguments, const train::RunConfig& config) {
  StartOptions options;
  options.launcher = arguments.launcher;
  options.nodes = train::node_list_of(config.parallel);
  options.arguments = arguments.init;
  options.devices_per_node = options.nodes.devices_per_node;
  options.cluster = config.cluster;
  return options;
}

std::string conclusion(const Start& start) { return start.ranks > 1 ? describe(start) : describe(start.world); }

/// Each rank is this command again, and finds in its environment which one it is.
int start_this_node(const Start& start, const TrainArguments& arguments) {
  fmt::print("{}\n", conclusion(start));
  std::fflush(stdout);
  cluster::LaunchOptions options;
  options.program.command = {this_program().string(), "train", "--config", arguments.config, "--launcher", "pytorch"};
  if (arguments.verify_plan) options.program.command.emplace_back("--verify-plan");
  options.program.command.insert(options.program.command.end(), arguments.overrides.begin(), arguments.overrides.end());
  options.processes = start.ranks;
  options.first_rank = start.world;
  return start_ranks(options);
}

/// A batch system asks by SIGTERM (or SIGUSR1, before it does) and may start the run again; a person asks by Ctrl-C.
int exit_code_of(const train::RunResult& result) {
  if (!result.ended_by) return kOk;
  // Slurm's KillOnBadExit, for one, tells the ranks once more as soon as the first of them has ended.
  result.signals->ignore_for_good();
  const std::string signal = signal_name(*result.ended_by);
  cluster::report_failure(fmt::format("{} ended the run early, after step {}", signal, result.steps), "ended_early");
  return *result.ended_by == SIGTERM || *result.ended_by == SIGUSR1 ? kEndedEarly : 128 + *result.ended_by;
}

void print_dry_run(const Start& start, const train::RunConfig& config) {
  const auto program = train::configured_program(config);
  fmt::print("{}\n\n{}\n", conclusion(start), train::describe_run(config, program));
  if (train::is_auto_mode(config.parallel)) fmt::print("\n{}", train::describe_plan(config, program, start.world.size));
}

/// A file's name where KEY=VALUE stands.
void refuse_file_without_flag(const TrainArguments& arguments) {
  for (const auto& word : arguments.overrides) {
    const bool is_yaml = word.ends_with(".yaml") || word.ends_with(".yml");
    if (!is_yaml || word.find('=') != std::string::npos) continue;
    fail(ErrorKind::invalid_argument, "train", "{} is given without --config{}", word,
         arguments.config.empty()
             ? fmt::format("; write lockstep train --config {}", word)
             : fmt::format(", and {} with it; a run has one file, and KEY=VALUE to change it", arguments.config));
  }
}

int train_or_describe(const TrainArguments& arguments) {
  if (arguments.help_keys) {
    print_keys();
    return kOk;
  }
  refuse_file_without_flag(arguments);
  if (arguments.config.empty()) {
    fail(ErrorKind::invalid_argument, "train", "--config FILE is missing; configs/ holds some to begin with");
  }
  train::RunConfig config = train::load_run_config(arguments.config, arguments.overrides);
  if (arguments.verify_plan && config.parallel.verify_plan == 0) {
    config.parallel.verify_plan = kStepsToVerify;
    train::check_run_config(config);
  }
  if (is_scheduler(arguments.launcher, config.cluster)) {
    if (!arguments.dry_run) return run_scheduler(config.cluster);
    fmt::print("the scheduler of a job\n\n{}\n", train::describe_run(config, train::configured_program(config)));
    return kOk;
  }
  const Start start = detect_start(start_options(arguments, config));
  if (arguments.dry_run) {
    if (start.world.rank <= 0) print_dry_run(start, config);
    return kOk;
  }
  if (start.ranks > 1) return start_this_node(start, arguments);
  return exit_code_of(train::run_training(config, start.world));
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a model as one YAML file says");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("--config", arguments->config, "The YAML file that describes the run")->type_name("FILE");
  add_override_keys(*command, arguments->overrides,
                    "Replaces a key of the file, e.g. train.epochs=3 model.hidden=[64,64]");
  command
      ->add_option("--launcher", arguments->launcher,
                   fmt::format("Its launcher:\n{}", fmt::join(launcher_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--init-method,--init_method", arguments->init.init_method,
                   "Where ranks meet: tcp://HOST:PORT of node 0, file:///PATH or env://")
      ->type_name("URL");
  command->add_option("--rank", arguments->init.rank, "The number of this node (not of a rank), with --world_size")
      ->type_name("N");
  command->add_option("--world-size,--world_size", arguments->init.world_size, "How many nodes there are")
      ->type_name("N");
  command->add_flag("--dry-run,--dry_run", arguments->dry_run,
                    "Only print the whole configuration, the model and, with parallel.mode auto, the plan");
  command->add_flag("--verify-plan,--verify_plan", arguments->verify_plan,
                    "With parallel.mode auto: five steps by the plan, five by data parallel; the faster goes on");
  command->add_flag("--help-keys", arguments->help_keys,
                    "List every key of the configuration with type, range and default");
  command->footer(kTrainFooter);
  command->callback([=, &chosen] { chosen = [=] { return train_or_describe(*arguments); }; });
}

}  // namespace lockstep::cli
