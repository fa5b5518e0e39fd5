// The commands eval and predict: weights and configuration of a run, and results as JSON, lines and safetensors.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/runner/measure.h>
#include <lockstep/runner/predictions.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/evaluation/evaluate_run.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/result.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

namespace lockstep::runner {
namespace {

constexpr const char* kFail = "fail";
constexpr const char* kSkip = "skip";

template <typename Arguments>
void add_weights_options(CLI::App& app, Arguments& arguments) {
  add_program_options(app, arguments);
  app.add_option("--weights", arguments.weights,
                 "The weights: safetensors, .pth of torch.save, a checkpoint, or the folder of a run")
      ->type_name("FILE");
  app.add_flag("--average", arguments.average,
               "Of a checkpoint: the average that the callback ema kept, not the trained weights");
}

/// The configuration file of the run that owns this path. The path is the folder of the run, or lies in it, such as
/// RUN/best or a checkpoint. Empty: there is none.
std::string config_of_run(const std::string& weights) {
  const auto folders = train::folders_of_run_around(weights);
  for (const auto& folder : folders) {
    const auto file = folder / "config.yaml";
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(file, unknown)) continue;
    if (folder == folders.front()) return (std::filesystem::path(weights) / "config.yaml").string();
    if (train::is_run_folder(folder)) return file.string();
  }
  return {};
}

template <typename Arguments>
void complete(Arguments& arguments, const MeasuringProgram& program, const char* command) {
  refuse_file_without_flag(arguments, fmt::format("{} {}", program.name, command));
  if (arguments.config.empty() && !arguments.weights.empty()) {
    std::error_code unknown;
    if (!std::filesystem::exists(arguments.weights, unknown)) {
      fail(ErrorKind::invalid_argument, command, "--weights {}: there is no such file or folder", arguments.weights);
    }
    arguments.config = config_of_run(arguments.weights);
  }
  if (arguments.config.empty() && !program.has_own_model) {
    fail(ErrorKind::invalid_argument, command,
         "--config FILE is missing; the folder of a run (--weights DIR) has one, which is used then");
  }
  if (!arguments.weights.empty()) return;
  fail(ErrorKind::invalid_argument, command,
       "--weights FILE is missing: the folder of a run, its model.safetensors, a .pth, or a checkpoint");
}

template <typename Arguments>
train::ResolvedRun load(const Arguments& arguments, const MeasuringProgram& program) {
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
  train::add_evaluation(json, evaluation);
  write_file_atomically(file, json.dump(2) + "\n");
}

void leave_predictions(const PredictArguments& arguments, const train::Prediction& all, const LineOptions& options) {
  const auto lines = json_lines_of(all, options);
  if (!arguments.csv.empty()) write_file_atomically(arguments.csv, csv_of(all, options));
  if (!arguments.json.empty()) write_file_atomically(arguments.json, lines);
  if (!arguments.out.empty()) {
    const std::filesystem::path folder = arguments.out;
    write_file_atomically(folder / "predictions.jsonl", lines);
    state::save_safetensors(folder / "predictions.safetensors", {all.tensors.begin(), all.tensors.end()},
                            {{"weights", arguments.weights}});
    for (const auto& [name, content] : all.files) write_file_atomically(folder / name, content);
  }
  if (arguments.json.empty() && arguments.csv.empty() && arguments.out.empty()) fmt::print("{}", lines);
  if (!all.left_out.empty()) {
    log_warning("{} of {} samples were left out; their lines give the reasons", all.left_out.size(),
                all.known_as.size());
  }
}

/// Checked before the work, so that the work is not lost.
void require_writable(const PredictArguments& arguments) {
  if (!arguments.json.empty()) require_writable_file(arguments.json, "--json");
  if (!arguments.csv.empty()) require_writable_file(arguments.csv, "--csv");
  if (!arguments.out.empty()) train::require_writable_folder(arguments.out, "--out");
}

/// All lines of a file, or of standard input, which only one process can read. `flag` names it.
std::vector<std::string> all_lines_from(const std::string& file, std::string_view flag, int ranks) {
  std::string text;
  if (file == "-") {
    if (ranks > 1) {
      fail(ErrorKind::invalid_argument, flag,
           "is -, and standard input is read by one process, not by {} ranks; write the lines into a file", ranks);
    }
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else if (auto read = read_file(file)) {
    text = std::move(*read);
  } else {
    fail(ErrorKind::invalid_argument, flag, "cannot read {}: {}", file, std::generic_category().message(errno));
  }
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The lines that are not empty.
std::vector<std::string> lines_from(const std::string& file, std::string_view flag, int ranks) {
  auto lines = all_lines_from(file, flag, ranks);
  std::erase(lines, "");
  return lines;
}

/// `data.on_error` of the configuration, unless a flag sets it. Data sets without that key fail.
bool skips_errors(const PredictArguments& arguments, const train::ResolvedRun& config) {
  if (!arguments.on_error.empty()) return arguments.on_error == kSkip;
  const auto settings = train::all_settings(config);
  const auto found = settings.find("data.on_error");
  return found != settings.end() && found->second == kSkip;
}

bool has_images(const PredictArguments& arguments) {
  return !arguments.images.empty() || !arguments.images_from.empty();
}
bool has_prompts(const PredictArguments& arguments) {
  return !arguments.prompts.empty() || !arguments.prompts_from.empty();
}

std::shared_ptr<const samples::Dataset> prompts_of(const PredictArguments& arguments, const train::ResolvedRun& config,
                                                   int ranks) {
  std::vector<Prompt> prompts;
  for (const auto& text : arguments.prompts) prompts.push_back(prompt_of(text));
  if (!arguments.prompts_from.empty()) {
    const bool is_json = arguments.prompts_from.ends_with(".jsonl");
    int number = 0;
    for (const auto& line : all_lines_from(arguments.prompts_from, "--prompts", ranks)) {
      ++number;
      if (line.empty()) continue;
      try {
        prompts.push_back(prompt_in(line, is_json));
      } catch (const Error& error) {
        throw Error(ErrorKind::invalid_argument, "--prompts", error.message(), {arguments.prompts_from, number});
      }
    }
  }
  return given_prompts(config, std::move(prompts));
}

/// The data set that the command line names; nullptr: it names none, and the configuration's data is used.
std::shared_ptr<const samples::Dataset> named_samples(const PredictArguments& arguments,
                                                      const train::ResolvedRun& config, int ranks) {
  if (has_prompts(arguments)) return prompts_of(arguments, config, ranks);
  if (!has_images(arguments)) return nullptr;
  const bool skips = skips_errors(arguments, config);
  const auto list = arguments.images == "-" ? arguments.images : arguments.images_from;
  if (!list.empty()) return listed_pictures(config, lines_from(list, "--images-from", ranks), skips);
  return given_pictures(config, arguments.images, {.subfolders = arguments.subfolders, .skips = skips});
}

/// The samples that the command line names define the model's input, so no training data is needed. But a plan
/// describes training, and needs the fields that training data has.
train::Program with_example(train::Program program, const std::shared_ptr<const samples::Dataset>& named,
                            const train::ResolvedRun& config) {
  if (!named || !program.is_configured || train::is_auto_mode(config.parallel)) return program;
  return {.example = [named] { return named->example(); }};  // the rest follows the configuration
}

/// The names of the classes that the run has learned, or else the class names of the data.
std::vector<std::string> classes_of(const train::Prediction& all, const MeasuringProgram& program,
                                    const train::ResolvedRun& config) {
  if (!all.classes.empty() || !all.tensors.contains("class") || program.has_own_model) return all.classes;
  if (auto learned = train::classes_of_run(config.model.weights.value_or("")); !learned.empty()) return learned;
  return train::class_names(config, program.make(config));
}

/// A warning for a seed without an effect, because nothing is drawn at random.
void warn_of_idle_seed(const PredictArguments& arguments, const train::ResolvedRun& config) {
  constexpr std::string_view kSeed = "system.seed=";
  const auto overrides = all_overrides(arguments);
  const bool is_given = std::ranges::any_of(overrides, [&](const auto& each) { return each.starts_with(kSeed); });
  if (!is_given || config.data.eval_transforms.kind != ConfigNode::Kind::null) return;
  log_warning("system.seed changes nothing here: {}",
              has_prompts(arguments) ? "texts are drawn with task.text_seed, where task.temperature is above 0"
                                     : "weights are read, and nothing is drawn");
}

/// Error(invalid_argument) for flags that contradict each other.
void check_flags(const PredictArguments& arguments, const MeasuringProgram& program) {
  const auto refuse = [](bool wrong, std::string_view reason) {
    if (wrong) fail(ErrorKind::invalid_argument, "predict", "{}", reason);
  };
  refuse(program.has_own_model && has_images(arguments),
         "--images is for pictures that a configuration describes; this program has data of its own");
  refuse(program.has_own_model && has_prompts(arguments),
         "--prompt is for language models that a configuration describes; this program has data of its own");
  refuse(has_images(arguments) && has_prompts(arguments), "--images and --prompt are both given; give one of them");
  refuse(!arguments.images.empty() && !arguments.images_from.empty(),
         "--images and --images-from are both given; give one of them");
  refuse(arguments.subfolders && (arguments.images.empty() || arguments.images == "-"),
         "--subfolders is for the folder of --images DIR, which is not given");
}

/// The flags of this command, for the ranks that it starts.
void add_own_flags(const PredictArguments& arguments, std::vector<std::string>& words) {
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("{}={}", flag, value));
  };
  add("--out", arguments.out);
  add("--csv", arguments.csv);
  add("--images", arguments.images);
  add("--images-from", arguments.images_from);
  for (const auto& prompt : arguments.prompts) add("--prompt", prompt);
  add("--prompts", arguments.prompts_from);
  add("--on-error", arguments.on_error);
  add("--classes", arguments.classes);
  if (arguments.top > 0) add("--top", std::to_string(arguments.top));
  if (arguments.subfolders) words.emplace_back("--subfolders");
}

}  // namespace

void add_eval_options(CLI::App& app, EvalArguments& arguments) {
  add_weights_options(app, arguments);
  app.add_option("--json", arguments.json, "Writes the metrics there")->type_name("FILE");
}

void add_predict_options(CLI::App& app, PredictArguments& arguments) {
  add_weights_options(app, arguments);
  app.add_option("--images", arguments.images,
                 "Pictures in place of the evaluation data: a folder, one file, or -, a list on\nstandard input")
      ->type_name("DIR");
  app.add_option("--images-from", arguments.images_from,
                 "The same for a list: a file with the path of a picture on each line")
      ->type_name("FILE");
  app.add_flag("--subfolders", arguments.subfolders, "With --images DIR: also those of all folders below it");
  app.add_option(
         "--prompt", arguments.prompts,
         "A text for a language model to continue, in place of the evaluation data; may be\ngiven several times")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_option("--prompts", arguments.prompts_from,
                 "The same from a file, or - for standard input: one text a line; of .jsonl the key\n"
                 "prompt, a text or a list of tokens")
      ->type_name("FILE");
  app.add_option(
         "--on-error", arguments.on_error,
         "A sample that cannot be read: fail, or skip, which leaves it out with a line that\nsays why (default: "
         "data.on_error)")
      ->check(CLI::IsMember({kFail, kSkip}))
      ->type_name("WORD");
  app.add_option("--top", arguments.top, "Also the N most probable classes, with their probabilities")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->type_name("N");
  app.add_option("--classes", arguments.classes,
                 "Names of the classes, one a line (default: those of the data set, where it has some)")
      ->type_name("FILE");
  app.add_option("--json", arguments.json, "Writes a line of JSON for each sample there, not to stdout")
      ->type_name("FILE");
  app.add_option("--csv", arguments.csv, "Writes the same as a table there, not to stdout")->type_name("FILE");
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
  check_flags(arguments, program);
  if (!arguments.on_error.empty() && !has_images(arguments) && !has_prompts(arguments)) {
    arguments.overrides.push_back("data.on_error=" + arguments.on_error);
  }
  const auto config = load(arguments, program);
  const auto classes =
      arguments.classes.empty() ? std::vector<std::string>() : lines_from(arguments.classes, "--classes", 1);
  auto command = command_of_rank(arguments, program, "predict");
  add_own_flags(arguments, command);
  std::shared_ptr<const samples::Dataset> named;
  const auto act = [&](Trainer& trainer) {
    if (!trainer.is_rank()) return;
    const auto& world = trainer.world();
    const data::ReportsOnce once(world.rank > 0);
    if (world.rank <= 0) {
      require_writable(arguments);
      if (!program.has_own_model) warn_of_idle_seed(arguments, config);
    }
    if (!arguments.out.empty()) std::filesystem::create_directories(arguments.out);
    named = named_samples(arguments, config, world.size);
    const auto all = trainer.predict(named, arguments.out);
    if (world.rank != 0) return;
    leave_predictions(arguments, all,
                      {.classes = classes.empty() ? classes_of(all, program, config) : classes,
                       .names_all = !classes.empty(),
                       .top = arguments.top});
  };
  return run_program(
      config, [&] { return with_example(program.make(config), named, config); },
      {.launcher = arguments.launcher, .init = arguments.init, .dry_run = arguments.dry_run, .rank_command = command},
      act);
}

}  // namespace lockstep::runner
