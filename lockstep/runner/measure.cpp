// The commands eval and predict: weights and configuration of a run, and results as JSON, lines and safetensors.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/base/writable_file.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/runner/measure.h>
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
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace lockstep::runner {
namespace {

template <typename Arguments>
void add_weights_options(CLI::App& app, Arguments& arguments) {
  add_program_options(app, arguments);
  app.add_option("--weights", arguments.weights,
                 "The weights: safetensors, .pth of torch.save, a checkpoint, or the folder of a run")
      ->type_name("FILE");
  app.add_flag("--average", arguments.average,
               "Of a checkpoint: the average that the callback ema kept, not the trained weights");
}

/// The configuration that the run in this folder left; empty: it is no such folder.
std::string config_of_run(const std::string& weights) {
  const auto file = std::filesystem::path(weights) / "config.yaml";
  std::error_code unknown;
  return std::filesystem::is_regular_file(file, unknown) ? file.string() : std::string();
}

template <typename Arguments>
void complete(Arguments& arguments, const MeasuringProgram& program, const char* command) {
  refuse_file_without_flag(arguments, fmt::format("{} {}", program.name, command));
  if (arguments.config.empty() && !arguments.weights.empty()) arguments.config = config_of_run(arguments.weights);
  if (arguments.config.empty() && !program.has_own_model) {
    fail(ErrorKind::invalid_argument, command,
         "--config FILE is missing; the folder of a run (--weights DIR) has one, which counts then");
  }
  if (!arguments.weights.empty()) return;
  fail(ErrorKind::invalid_argument, command,
       "--weights FILE is missing: the folder of a run, its model.safetensors, a .pth, or a checkpoint");
}

template <typename Arguments>
train::RunConfig load(const Arguments& arguments, const MeasuringProgram& program) {
  const auto file = arguments.config.empty() ? std::nullopt : std::optional<std::filesystem::path>(arguments.config);
  return program.load(file,
                      train::measured_overrides(file, all_overrides(arguments), arguments.weights, arguments.average));
}

template <typename Arguments>
std::vector<std::string> command_of_rank(const Arguments& arguments, const MeasuringProgram& program,
                                         const char* command) {
  auto words = program.words;
  words.emplace_back(command);
  words = rank_command(std::move(words), arguments);
  words.insert(words.end(), {"--weights", arguments.weights});
  if (arguments.average) words.emplace_back("--average");
  if (!arguments.json.empty()) words.insert(words.end(), {"--json", arguments.json});
  return words;
}

void write_json(const std::string& file, const train::Evaluation& evaluation, const std::string& weights) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["weights"] = weights;
  for (const auto& [name, value] : evaluation.metrics) json["eval_" + name] = value;
  json["eval_loss"] = evaluation.loss;
  json["eval_samples"] = evaluation.samples;
  for (const auto& [name, value] : evaluation.metrics) json.emplace(name, value);  // as result.json has them
  write_file_atomically(file, json.dump(2) + "\n");
}

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

}  // namespace

void add_eval_options(CLI::App& app, EvalArguments& arguments) {
  add_weights_options(app, arguments);
  app.add_option("--json", arguments.json, "Writes the metrics there")->type_name("FILE");
}

void add_predict_options(CLI::App& app, PredictArguments& arguments) {
  add_weights_options(app, arguments);
  app.add_option("--images", arguments.images, "Pictures in place of the evaluation data: a folder, or one file")
      ->type_name("DIR");
  app.add_option("--json", arguments.json, "Writes a line of JSON for each sample there, not to stdout")
      ->type_name("FILE");
  app.add_option("--out", arguments.out, "Leaves predictions.jsonl and predictions.safetensors there")
      ->type_name("DIR");
}

int evaluate(EvalArguments arguments, const MeasuringProgram& program) {
  if (answers_about_parts(arguments, program.defaults)) return cluster::kOk;
  complete(arguments, program, "eval");
  const auto config = load(arguments, program);
  const auto act = [&](Trainer& trainer) {
    const bool writes = !arguments.json.empty() && trainer.is_rank() && trainer.world().rank <= 0;
    if (writes) require_writable_file(arguments.json, "--json");
    const auto evaluation = trainer.evaluate();
    if (!trainer.is_rank() || trainer.world().rank != 0 || arguments.json.empty()) return;
    write_json(arguments.json, evaluation, arguments.weights);
  };
  return run_program(
      config, [&] { return program.make(config); },
      {.launcher = arguments.launcher,
       .init = arguments.init,
       .dry_run = arguments.dry_run,
       .rank_command = command_of_rank(arguments, program, "eval")},
      act);
}

int predict(PredictArguments arguments, const MeasuringProgram& program) {
  if (answers_about_parts(arguments, program.defaults)) return cluster::kOk;
  complete(arguments, program, "predict");
  if (program.has_own_model && !arguments.images.empty()) {
    fail(ErrorKind::invalid_argument, "predict",
         "--images is for pictures that a configuration describes; this program has data of its own");
  }
  const auto config = load(arguments, program);
  auto command = command_of_rank(arguments, program, "predict");
  if (!arguments.out.empty()) command.insert(command.end(), {"--out", arguments.out});
  if (!arguments.images.empty()) command.insert(command.end(), {"--images", arguments.images});
  const auto act = [&](Trainer& trainer) {
    if (trainer.is_rank() && trainer.world().rank <= 0) require_writable(arguments);
    if (!arguments.out.empty()) std::filesystem::create_directories(arguments.out);
    const auto all = trainer.predict(
        arguments.images.empty() ? nullptr : train::given_pictures(config, arguments.images), arguments.out);
    if (trainer.is_rank() && trainer.world().rank == 0) leave_predictions(arguments, all);
  };
  return run_program(
      config, [&] { return program.make(config); },
      {.launcher = arguments.launcher, .init = arguments.init, .dry_run = arguments.dry_run, .rank_command = command},
      act);
}

}  // namespace lockstep::runner
