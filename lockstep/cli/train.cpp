// `lockstep train`, `eval` and `predict`: a training run from one YAML file, the metrics of weights in a file, and a
// model's predictions with them.
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/programs.h>
#include <lockstep/runner/measure.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>

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

constexpr const char* kEvalFooter =
    "Measures what training measures at the end, with the same configuration, alone or on several ranks:\n"
    "  lockstep eval --config configs/resnet20_cifar10.yaml data.root=data/cifar10 --weights out/model.safetensors\n"
    "  lockstep run --nproc-per-node 2 lockstep eval --config run.yaml --weights model.pth --json metrics.json\n"
    "\n"
    "Exit code: 0 when measured, 1 when it failed, 2 when the command line, the configuration or the environment is\n"
    "wrong.";

constexpr const char* kPredictFooter =
    "Over the evaluation data of the configuration, in its order, or over pictures (--images) or beginnings of texts\n"
    "(--prompt), alone or on several ranks; other inputs are other data, by the keys of the section data:\n"
    "  lockstep predict --config configs/resnet20_cifar10.yaml data.root=data/cifar10 --weights out/model.safetensors\n"
    "  lockstep run --nproc-per-node 2 lockstep predict --config run.yaml --weights model.pth --out predictions\n"
    "\n"
    "  lockstep predict --weights out/run --images new --subfolders --on-error skip --top 3 --csv new.csv\n"
    "  lockstep predict --weights out/gpt --prompt 'Once upon' task.name=language_modelling task.temperature=0.8 "
    "task.top_k=50\n"
    "\n"
    "A line of JSON for each sample: its index, its file or key (data.keys), and what the task predicts, such as "
    "class,\n"
    "its name and probability of a picture, or the text that a language model adds. --out also leaves\n"
    "predictions.safetensors, with what does not fit into lines, such as the logits, and the task's files, such as\n"
    "rec_results.txt of one that reads words, and pictures with the words that were found.\n"
    "\n"
    "Exit code: 0 when predicted, 1 when it failed, 2 when the command line, the configuration or the environment is\n"
    "wrong.";

runner::MeasuringProgram lockstep_itself(const KnownParts& parts) {
  return {.name = "lockstep",
          .words = {this_program().string()},
          .defaults = train::ResolvedRun({}, parts),
          .load = [parts](const auto& file, auto overrides) { return train::load_run_config(*file, overrides, parts); },
          .make = train::configured_program};
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

void add_eval(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command = app.add_subcommand("eval", "Measure weights with the data and the metrics of a configuration");
  const auto arguments = std::make_shared<runner::EvalArguments>();
  runner::add_eval_options(*command, *arguments);
  command->footer(kEvalFooter);
  command->callback([=, &chosen] { chosen = [=] { return runner::evaluate(*arguments, lockstep_itself(parts)); }; });
}

void add_predict(CLI::App& app, const KnownParts& parts, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("predict", "Print what a model predicts for samples, with weights from a file");
  const auto arguments = std::make_shared<runner::PredictArguments>();
  runner::add_predict_options(*command, *arguments);
  command->footer(kPredictFooter);
  command->callback([=, &chosen] { chosen = [=] { return runner::predict(*arguments, lockstep_itself(parts)); }; });
}

}  // namespace lockstep::cli
