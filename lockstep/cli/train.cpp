// `lockstep train`: a training run from one YAML file.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/train/config.h>
#include <lockstep/train/run.h>
#include <lockstep/train/run_model.h>
#include <lockstep/world/world.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kFooter =
    "The same command works alone, under 'lockstep run', under mpirun, and with torchrun's variables set by hand. "
    "Its first\n"
    "line says which rank it is and from which variables it knows.\n"
    "\n"
    "Results go to system.work_dir: result.json, metrics.jsonl, loss.svg, log/rank.N, checkpoints/, model.safetensors. "
    "A run\n"
    "that was killed goes on from its newest checkpoint when the same command is given again (checkpoint.resume).\n"
    "\n"
    "Exit code: 0 when trained to the end, 1 when the run failed, 2 when the command line, the configuration or the\n"
    "environment is wrong.\n"
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
  bool dry_run = false;
  bool help_keys = false;
};

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

int train_or_describe(const TrainArguments& arguments) {
  if (arguments.help_keys) {
    print_keys();
    return kOk;
  }
  if (arguments.config.empty()) {
    fail(ErrorKind::invalid_argument, "train", "--config FILE is missing; configs/ holds some to begin with");
  }
  const train::RunConfig config = train::read_run_config(load_config(arguments.config, arguments.overrides));
  const World world = detect_world(arguments.launcher);
  if (!arguments.dry_run) {
    train::run_training(config, world);
  } else if (world.rank == 0) {
    fmt::print("{}\n\n{}\n", describe(world), train::describe_run(config));
  }
  return kOk;
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a model as one YAML file says");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("--config", arguments->config, "The YAML file that describes the run")->type_name("FILE");
  command
      ->add_option("KEY=VALUE", arguments->overrides,
                   "Replaces a key of the file, e.g. train.epochs=3 model.hidden=[64,64]")
      ->type_name("");
  command
      ->add_option("--launcher", arguments->launcher,
                   fmt::format("How this process was started: {}", fmt::join(launcher_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--dry-run,--dry_run", arguments->dry_run, "Only print the whole configuration and the model");
  command->add_flag("--help-keys", arguments->help_keys,
                    "List every key of the configuration with type, range and default");
  command->footer(kFooter);
  command->callback([=, &chosen] { chosen = [=] { return train_or_describe(*arguments); }; });
}

}  // namespace lockstep::cli
