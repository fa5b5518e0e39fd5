// train_main(): a program's main function, from its arguments to training, eval or predict, and to an exit code.
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/runner/measure.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/runner/trainer.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/plugins/error_origin.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kFooter =
    "'PROGRAM eval' and 'PROGRAM predict' use its weights afterwards: PROGRAM eval --weights DIR, the folder of a "
    "run.\n"
    "\n"
    "Started by itself, by 'lockstep run', mpirun, srun or torchrun's variables, from a rank table or a node list, or "
    "as\n"
    "the worker of a scheduler: the result is the same. --help-keys lists what KEY=VALUE can change.\n"
    "\n"
    "Results go to system.work_dir. A run that was killed goes on from its newest checkpoint when the same command is\n"
    "given again.\n"
    "\n"
    "Exit code: 0 when trained to the end, 1 when the run failed, 2 when the command line, the configuration or the\n"
    "environment is wrong, 75 when SIGTERM or SIGUSR1 ended it early (start it again), 130 after Ctrl-C.";

/// The configuration of a user's program, and the construction of its parts.
struct Own {
  std::function<train::ResolvedRun(const std::optional<std::filesystem::path>& file,
                                   std::span<const std::string> overrides)>
      load;
  std::function<train::Program(const train::ResolvedRun&)> make;
  train::ResolvedRun defaults;  ///< the keys that --help-keys lists
  bool has_own_model = false;   ///< else the configuration names parts
};

constexpr const char* kEval = "eval";
constexpr const char* kPredict = "predict";

/// False: all output is written, and `code` is the exit code.
bool parse(CLI::App& app, int argc, char** argv, const std::string& name, int& code) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::Success& asked_for_text) {
    code = app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: error: {} (see '{} --help')\n", name, shown_message(error.what()), app.get_name());
    code = cluster::kUsage;
  }
  return false;
}

std::string this_file() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// `PROGRAM eval` and `PROGRAM predict`: `argv` begins with the command.
int measure(int argc, char** argv, const std::string& name, const Own& own) {
  const std::string command = argv[0];
  const runner::MeasuringProgram program{.name = name,
                                         .words = {this_file()},
                                         .has_own_model = own.has_own_model,
                                         .defaults = own.defaults,
                                         .load = own.load,
                                         .make = own.make};
  CLI::App app(command == kEval ? "Measures weights with the data and the metrics of this program."
                                : "Prints what the model of this program predicts for samples, with weights from a "
                                  "file.",
               fmt::format("{} {}", name, command));
  int code = cluster::kOk;
  if (command == kEval) {
    runner::EvalArguments arguments;
    runner::add_eval_options(app, arguments);
    return parse(app, argc, argv, name, code) ? runner::evaluate(arguments, program) : code;
  }
  runner::PredictArguments arguments;
  runner::add_predict_options(app, arguments);
  return parse(app, argc, argv, name, code) ? runner::predict(arguments, program) : code;
}

/// A word that is not KEY=VALUE, such as the command of `lockstep train`.
void refuse_other_command(const runner::ProgramArguments& arguments, const std::string& name) {
  const auto& words = arguments.overrides;
  const auto other = std::ranges::find_if(words, [](const auto& word) { return word.find('=') == std::string::npos; });
  if (other == words.end() || arguments.foreign.ignores_unknown) return;
  fail(ErrorKind::invalid_argument, "train",
       "'{}' is not KEY=VALUE; {} trains without a command, and has the commands {} and {}", *other, name, kEval,
       kPredict);
}

int parse_and_run(int argc, char** argv, const std::string& name, const Own& own) {
  CLI::App app("Trains the model of this program.", name);
  app.footer(kFooter);
  runner::ProgramArguments arguments;
  runner::add_program_options(app, arguments);
  int code = cluster::kOk;
  if (!parse(app, argc, argv, name, code)) return code;
  if (runner::answers_about_parts(arguments, own.defaults)) return cluster::kOk;
  runner::refuse_file_without_flag(arguments, name);
  refuse_other_command(arguments, name);
  if (arguments.config.empty() && !own.has_own_model) {
    fail(ErrorKind::invalid_argument, "train", "--config FILE is missing: it names the parts of the run");
  }
  const auto file = arguments.config.empty() ? std::nullopt : std::optional<std::filesystem::path>(arguments.config);
  const auto config = own.load(file, runner::all_overrides(arguments));
  return runner::run_program(config, [&] { return own.make(config); },
                             {.launcher = arguments.launcher,
                              .init = arguments.init,
                              .dry_run = arguments.dry_run,
                              .rank_command = runner::rank_command({this_file()}, arguments)});
}

int run_and_report(int argc, char** argv, const std::function<Own()>& own) noexcept {
  std::string name = "program";
  try {
    if (argc > 0) name = std::filesystem::path(argv[0]).filename().string();
    const std::string first = argc > 1 ? argv[1] : "";
    if (first == kEval || first == kPredict) return measure(argc - 1, argv + 1, name, own());
    return parse_and_run(argc, argv, name, own());
  } catch (const c10::Error& error) {
    return cluster::end_with(error, error.what_without_backtrace(), name);
  } catch (const std::exception& error) {
    return cluster::end_with(error, error.what(), name);
  } catch (...) {
    std::fputs("error: something was thrown that is not a std::exception\n", stderr);
    return cluster::kFailed;
  }
}

}  // namespace

int train_main(int argc, char** argv, const std::function<train::Program(const train::RunConfig&)>& make,
               train::RunConfig defaults) noexcept {
  return run_and_report(argc, argv, [&] {
    if (!make) fail(ErrorKind::invalid_argument, "train_main", "the function that makes the program is empty");
    const auto load = [defaults](const auto& file, auto overrides) {
      return train::load_program_config(defaults, file, overrides);
    };
    train::ResolvedRun keys(defaults);
    keys.has_own_model = keys.has_own_data = true;
    return Own{load, [make](const train::ResolvedRun& config) { return make(config); }, std::move(keys),
               /*has_own_model=*/true};
  });
}

int train_main(int argc, char** argv, const train::Program& program, const std::string& yaml) noexcept {
  return run_and_report(argc, argv, [&] {
    const auto load = [&](const auto& file, auto overrides) {
      if (file) {
        fail(ErrorKind::invalid_argument, "train",
             "--config {}: the configuration of this program is in its source; KEY=VALUE changes a key of it",
             file->string());
      }
      return train::parse_run_config(yaml, program, overrides);
    };
    return Own{load, [&](const train::ResolvedRun&) { return program; }, train::parse_run_config(yaml, program),
               /*has_own_model=*/true};
  });
}

int train_main(int argc, char** argv, train::Parts parts) noexcept {
  return run_and_report(argc, argv, [&] {
    const auto program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : std::string("the program");
    const auto shared =
        std::make_shared<const train::Parts>(train::with_error_origin_of_program(std::move(parts), program));
    const auto load = [shared](const auto& file, auto overrides) {
      return train::load_run_config(*file, overrides, shared);
    };
    return Own{load, train::configured_program, train::ResolvedRun({}, shared)};
  });
}

}  // namespace lockstep
