// The whole program `lockstep`, from the command line to an exit code.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/run_line.h>
#include <lockstep/cluster/failure.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Lockstep: distributed deep-learning training in C++.\n"
    "\n"
    "  lockstep data synthesize cifar10 --out data/cifar10      make a small data set\n"
    "  lockstep train --config run.yaml                         train on one process\n"
    "  lockstep run --nproc-per-node 2 lockstep train --config run.yaml\n"
    "                                                           the same on two\n"
    "  lockstep eval --config run.yaml --weights out/model.safetensors\n"
    "  lockstep predict --config run.yaml --weights out/model.safetensors --json predictions.jsonl\n"
    "                                                           measure weights\n"
    "  mpirun -n 2 lockstep train --config run.yaml             the same under MPI\n"
    "  MS_ROLE=MS_WORKER lockstep train --config run.yaml       as a worker, with 'lockstep scheduler' somewhere\n"
    "  lockstep plan --config run.yaml --devices 16             how it would best be divided, and what that costs\n"
    "  lockstep doctor                                          what would prevent a job from running here\n"
    "  lockstep operator                                        run LockstepJobs on Kubernetes\n"
    "\n"
    "'lockstep COMMAND --help' explains a command.";

/// The probable meaning of a flag that the command lacks.
std::string meant_by_extras(const CLI::App& command, const CLI::ParseError& error) {
  const bool is_answered = std::string_view(error.what()).find("; here") != std::string_view::npos;
  if (is_answered || dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return "";
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const auto& word : command.remaining(/*recurse=*/true)) {
    const auto flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--")) continue;
    if (auto meant = did_you_mean(flag, names); !meant.empty()) return meant;
  }
  const bool passes_over = std::ranges::find(names, "--ignore-unknown") != names.end();
  return passes_over ? "; --ignore-unknown ignores arguments that a platform adds" : "";
}

int print_usage_error(const CLI::App& app, const CLI::ParseError& error, std::span<const PetDefault> defaults) {
  const CLI::App* about = &app;
  while (!about->get_subcommands().empty()) about = about->get_subcommands().front();
  std::string command = about->get_name();
  for (const CLI::App* parent = about->get_parent(); parent != nullptr; parent = parent->get_parent()) {
    command.insert(0, parent->get_name() + " ");
  }
  fmt::print(stderr, "lockstep: error: {}{} (see '{} --help')\n",
             shown_message(name_variables(std::string(error.what()), defaults)), meant_by_extras(*about, error),
             command);
  return kUsage;
}

/// A misspelt flag is often the required one: CLI11 would name the required one, and not what was given in its place.
void refuse_unknown_first(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) == nullptr) return;
  const auto unknown = app.remaining(/*recurse=*/true);
  if (!unknown.empty()) throw CLI::ExtrasError(unknown);
}

/// A check of our own, because CLI11 would only report that a command is required.
void require_known_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const std::string& wanted = arguments.front();
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return;
  fail(ErrorKind::invalid_argument, "lockstep", "there is no command '{}'{} (commands: {})", cut_text(wanted),
       did_you_mean(wanted, names), fmt::join(names, ", "));
}

/// A check of the current folder: without it, every relative path would fail with "No such file or directory".
void require_current_folder() {
  std::error_code failed;
  static_cast<void>(std::filesystem::current_path(failed));
  if (failed != std::errc::no_such_file_or_directory) return;
  fail(ErrorKind::environment, "lockstep",
       "the current folder was removed while this shell was in it; change to one that is there (cd)");
}

int act(const Action& chosen, std::span<const PetDefault> defaults) {
  try {
    require_current_folder();
    return chosen();
  } catch (const Error& error) {
    throw name_variables(error, defaults);
  }
}

int parse_and_act(int argc, char** argv, const AppCommands& apps, const KnownParts& parts) {
  CLI::App app(kDescription, "lockstep");
  app.set_version_flag("--version", std::string("lockstep ") + LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Action chosen;
  std::vector<std::string> program;  // of the launchers
  add_train(app, parts, chosen);
  add_eval(app, parts, chosen);
  add_predict(app, parts, chosen);
  add_run(app, program, chosen);
  add_launch(app, program, chosen);
  add_plan(app, parts, chosen);
  add_calibrate(app, chosen);
  add_data(app, parts, chosen);
  add_checkpoint(app, chosen);
  add_rank_table(app, chosen);
  add_doctor(app, parts, chosen);
  add_scheduler(app, parts, chosen);
  add_certs(app, chosen);
  add_status(app, parts, chosen);
  add_bench(app, chosen);
  apps.add(app, chosen);
  add_convert(app, apps.converters, chosen);
  add_info(app, parts, chosen);
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  require_known_command(app, arguments);
  const std::vector<PetDefault> defaults = prepare_launcher(app, arguments, program);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the reverse order
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      refuse_unknown_first(app, error);
      throw;
    }
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    return print_usage_error(app, error, defaults);
  }
  return act(chosen, defaults);
}

int report(const std::exception& error) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&error);
  return cluster::end_with(error, torchs != nullptr ? torchs->what_without_backtrace() : error.what());
}

}  // namespace

int run_whole_program(int argc, char** argv, const AppCommands& apps, const KnownParts& parts) noexcept {
  try {
    return parse_and_act(argc, argv, apps, parts);
  } catch (const std::exception& error) {
    return report(error);
  } catch (...) {
    std::fputs("lockstep: error: something was thrown that is not a std::exception\n", stderr);
    return kFailed;
  }
}

}  // namespace lockstep::cli
