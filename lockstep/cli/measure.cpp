// `lockstep eval` and `lockstep predict`: the metrics of weights in a file, and a model's predictions with them.
#include <lockstep/cli/command.h>
#include <lockstep/cli/programs.h>
#include <lockstep/runner/measure.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>

#include <CLI/CLI.hpp>
#include <memory>

namespace lockstep::cli {
namespace {

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
