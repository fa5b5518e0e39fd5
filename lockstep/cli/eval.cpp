// `lockstep eval`: the metrics of weights in a file.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/base/writable_file.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/known_parts.h>
#include <lockstep/cli/programs.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/train/evaluation/measured_config.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::cli {
namespace {

constexpr const char* kEvalFooter =
    "Measures what training measures at the end, with the same configuration, alone or on several ranks:\n"
    "  lockstep eval --config configs/resnet20_cifar10.yaml data.root=data/cifar10 --weights out/model.safetensors\n"
    "  lockstep run --nproc-per-node 2 lockstep eval --config run.yaml --weights model.pth --json metrics.json\n"
    "\n"
    "Exit code: 0 when measured, 1 when it failed, 2 when the command line, the configuration or the environment is\n"
    "wrong.";

struct EvalArguments : runner::ProgramArguments {
  std::string weights;
  bool average = false;
  std::string json;
};

void write_json(const std::string& file, const train::Evaluation& evaluation, const std::string& weights) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["weights"] = weights;
  for (const auto& [name, value] : evaluation.metrics) json["eval_" + name] = value;
  json["eval_loss"] = evaluation.loss;
  json["eval_samples"] = evaluation.samples;
  for (const auto& [name, value] : evaluation.metrics) json.emplace(name, value);  // as result.json has them
  write_file_atomically(file, json.dump(2) + "\n");
}

int evaluate(EvalArguments arguments) {
  if (runner::answers_about_parts(arguments, train::config_with(known_parts()))) return kOk;
  if (arguments.config.empty()) fail(ErrorKind::invalid_argument, "eval", "--config FILE is missing");
  if (arguments.weights.empty()) {
    fail(ErrorKind::invalid_argument, "eval",
         "--weights FILE is missing: the model.safetensors of a run, a .pth, or a checkpoint");
  }
  runner::refuse_file_without_flag(arguments, "lockstep eval");
  const auto config = train::load_measured_config(arguments.config, runner::all_overrides(arguments), arguments.weights,
                                                  known_parts(), arguments.average);
  auto command = runner::rank_command({this_program().string(), "eval"}, arguments);
  command.insert(command.end(), {"--weights", arguments.weights});
  if (arguments.average) command.emplace_back("--average");
  if (!arguments.json.empty()) command.insert(command.end(), {"--json", arguments.json});
  const auto act = [&](Trainer& trainer) {
    const bool writes = !arguments.json.empty() && trainer.is_rank() && trainer.world().rank <= 0;
    if (writes) require_writable_file(arguments.json, "--json");
    const auto evaluation = trainer.evaluate();
    if (!trainer.is_rank() || trainer.world().rank != 0 || arguments.json.empty()) return;
    write_json(arguments.json, evaluation, arguments.weights);
  };
  return runner::run_program(
      config, [&] { return train::configured_program(config); },
      {.launcher = arguments.launcher, .init = arguments.init, .dry_run = arguments.dry_run, .rank_command = command},
      act);
}

}  // namespace

void add_eval(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("eval", "Measure weights with the data and the metrics of a configuration");
  const auto arguments = std::make_shared<EvalArguments>();
  runner::add_program_options(*command, *arguments);
  command->add_option("--weights", arguments->weights, "The weights: safetensors, .pth of torch.save, or a checkpoint")
      ->type_name("FILE");
  command->add_flag("--average", arguments->average,
                    "Of a checkpoint: the average that the callback ema kept, not the trained weights");
  command->add_option("--json", arguments->json, "Writes the metrics there")->type_name("FILE");
  command->footer(kEvalFooter);
  command->callback([=, &chosen] { chosen = [=] { return evaluate(*arguments); }; });
}

}  // namespace lockstep::cli
