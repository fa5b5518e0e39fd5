// `eval` and `predict`, as commands of `lockstep` and of programs of users.
#pragma once

#include <lockstep/runner/program_arguments.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::runner {

/// The program that has these commands.
struct MeasuringProgram {
  std::string name;                ///< for messages
  std::vector<std::string> words;  ///< the command line of one rank's process, without the subcommand
  bool has_own_model = false;      ///< needs no configuration file, and has no pictures that --images could give
  train::ResolvedRun defaults;     ///< for --list and --help-keys
  std::function<train::ResolvedRun(const std::optional<std::filesystem::path>& file,
                                   std::span<const std::string> overrides)>
      load;
  std::function<train::Program(const train::ResolvedRun&)> make;
};

struct EvalArguments : ProgramArguments {
  std::string weights;
  bool average = false;
  std::string json;
};

struct PredictArguments : ProgramArguments {
  std::string weights;
  bool average = false;
  std::string images;
  std::string images_from;  ///< a file with one path per line; "-": standard input
  bool subfolders = false;
  std::vector<std::string> prompts;
  std::string prompts_from;  ///< a file with one prompt per line; "-": standard input
  std::string on_error;      ///< fail or skip; empty: the setting of the data set
  std::int64_t top = 0;
  std::string classes;  ///< a file with one class name per line
  std::string json;
  std::string csv;
  std::string out;
};

/// Adds the options; `arguments` outlives `app`.
void add_eval_options(CLI::App& app, EvalArguments& arguments);
void add_predict_options(CLI::App& app, PredictArguments& arguments);

/// An exit code (cluster/failure.h). Where no configuration is named, the configuration of the run that the weights
/// belong to is used: the weights are the folder of the run, or a file or folder in it.
int evaluate(EvalArguments arguments, const MeasuringProgram& program);
int predict(PredictArguments arguments, const MeasuringProgram& program);

}  // namespace lockstep::runner
