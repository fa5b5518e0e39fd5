// `lockstep predict`: what a model with weights from a file says of samples.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/base/writable_file.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/known_parts.h>
#include <lockstep/cli/programs.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/train/configuration/config_keys.h>
#include <lockstep/train/evaluation/given_pictures.h>
#include <lockstep/train/evaluation/measured_config.h>
#include <lockstep/train/weights/safetensors.h>
#include <lockstep/train/work_dir.h>

#include <ATen/core/Tensor.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::cli {
namespace {

constexpr const char* kPredictFooter =
    "Over the evaluation data of the configuration, in its order, or over the pictures of a folder (--images), alone "
    "or\n"
    "on several ranks; other inputs are other data, by the keys of the section data:\n"
    "  lockstep predict --config configs/resnet20_cifar10.yaml data.root=data/cifar10 --weights out/model.safetensors\n"
    "  lockstep run --nproc-per-node 2 lockstep predict --config run.yaml --weights model.pth --out predictions\n"
    "\n"
    "A line of JSON for each sample: its index, and what the task predicts, such as class and probability of a\n"
    "picture, or the text that a language model adds. --out also leaves predictions.safetensors, with what does not\n"
    "fit into lines, such as the logits, and the task's files, such as rec_results.txt of one that reads words, and\n"
    "pictures with the words that were found.\n"
    "\n"
    "Exit code: 0 when predicted, 1 when it failed, 2 when the command line, the configuration or the environment is\n"
    "wrong.";

struct PredictArguments : runner::ProgramArguments {
  std::string weights;
  bool average = false;
  std::string images;
  std::string json;
  std::string out;
};

/// The numbers of one sample that are one number.
nlohmann::ordered_json number_at(const at::Tensor& tensor, std::int64_t index) {
  const auto row = tensor[index];
  if (row.scalar_type() == at::kBool) return row.item<bool>();
  if (row.is_floating_point()) return row.item<double>();
  return row.item<std::int64_t>();
}

std::int64_t samples_of(const train::Prediction& all) {
  if (!all.tensors.empty()) return all.tensors.begin()->second.size(0);
  return all.texts.empty() ? 0 : static_cast<std::int64_t>(all.texts.begin()->second.size());
}

/// A line for each sample; bytes that are not UTF-8 are replaced.
std::string lines_of(const train::Prediction& all) {
  std::string lines;
  for (std::int64_t i = 0; i < samples_of(all); ++i) {
    nlohmann::ordered_json line{{"index", i}};
    for (const auto& [name, tensor] : all.tensors) {
      if (tensor.numel() == tensor.size(0)) line[name] = number_at(tensor.flatten(), i);
    }
    for (const auto& [name, texts] : all.texts) line[name] = texts.at(static_cast<std::size_t>(i));
    lines += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  }
  return lines;
}

void leave_predictions(const PredictArguments& arguments, const train::Prediction& all) {
  const auto lines = lines_of(all);
  if (!arguments.json.empty()) write_file_atomically(arguments.json, lines);
  if (!arguments.out.empty()) {
    const std::filesystem::path folder = arguments.out;
    write_file_atomically(folder / "predictions.jsonl", lines);
    train::save_safetensors(folder / "predictions.safetensors", {all.tensors.begin(), all.tensors.end()},
                            {{"weights", arguments.weights}});
    for (const auto& [name, content] : all.files) write_file_atomically(folder / name, content);
  }
  if (arguments.json.empty() && arguments.out.empty()) fmt::print("{}", lines);
}

/// Before the work rather than after it.
void require_writable(const PredictArguments& arguments) {
  if (!arguments.json.empty()) require_writable_file(arguments.json, "--json");
  if (!arguments.out.empty()) train::require_writable_folder(arguments.out, "--out");
}

int predict(PredictArguments arguments) {
  if (runner::answers_about_parts(arguments, train::config_with(known_parts()))) return kOk;
  if (arguments.config.empty()) fail(ErrorKind::invalid_argument, "predict", "--config FILE is missing");
  if (arguments.weights.empty()) {
    fail(ErrorKind::invalid_argument, "predict",
         "--weights FILE is missing: the model.safetensors of a run, a .pth, or a checkpoint");
  }
  runner::refuse_file_without_flag(arguments, "lockstep predict");
  const auto config = train::load_measured_config(arguments.config, runner::all_overrides(arguments), arguments.weights,
                                                  known_parts(), arguments.average);
  auto command = runner::rank_command({this_program().string(), "predict"}, arguments);
  command.insert(command.end(), {"--weights", arguments.weights});
  if (arguments.average) command.emplace_back("--average");
  if (!arguments.json.empty()) command.insert(command.end(), {"--json", arguments.json});
  if (!arguments.out.empty()) command.insert(command.end(), {"--out", arguments.out});
  if (!arguments.images.empty()) command.insert(command.end(), {"--images", arguments.images});
  const auto act = [&](Trainer& trainer) {
    if (trainer.is_rank() && trainer.world().rank <= 0) require_writable(arguments);
    if (!arguments.out.empty()) std::filesystem::create_directories(arguments.out);
    const auto all = trainer.predict(
        arguments.images.empty() ? nullptr : train::given_pictures(config, arguments.images), arguments.out);
    if (trainer.is_rank() && trainer.world().rank == 0) leave_predictions(arguments, all);
  };
  return runner::run_program(
      config, [&] { return train::configured_program(config); },
      {.launcher = arguments.launcher, .init = arguments.init, .dry_run = arguments.dry_run, .rank_command = command},
      act);
}

}  // namespace

void add_predict(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("predict", "Say what a model makes of samples, with weights from a file");
  const auto arguments = std::make_shared<PredictArguments>();
  runner::add_program_options(*command, *arguments);
  command->add_option("--weights", arguments->weights, "The weights: safetensors, .pth of torch.save, or a checkpoint")
      ->type_name("FILE");
  command->add_flag("--average", arguments->average,
                    "Of a checkpoint: the average that the callback ema kept, not the trained weights");
  command->add_option("--images", arguments->images, "Pictures in place of the evaluation data: a folder, or one file")
      ->type_name("DIR");
  command->add_option("--json", arguments->json, "Writes a line of JSON for each sample there, not to stdout")
      ->type_name("FILE");
  command->add_option("--out", arguments->out, "Leaves predictions.jsonl and predictions.safetensors there")
      ->type_name("DIR");
  command->footer(kPredictFooter);
  command->callback([=, &chosen] { chosen = [=] { return predict(*arguments); }; });
}

}  // namespace lockstep::cli
