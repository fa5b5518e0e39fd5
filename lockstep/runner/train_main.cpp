#include <lockstep/cluster/exit_code.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/runner/train_main.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kFooter =
    "Started by itself, by 'lockstep run', mpirun, srun or torchrun's variables, from a rank table or a node list, or "
    "as\n"
    "the worker of a scheduler: the result is the same. --help-keys lists what KEY=VALUE can change.\n"
    "\n"
    "Results go to system.work_dir. A run that was killed goes on from its newest checkpoint when the same command is\n"
    "given again.\n"
    "\n"
    "Exit code: 0 when trained to the end, 1 when the run failed, 2 when the command line, the configuration or the\n"
    "environment is wrong, 75 when SIGTERM or SIGUSR1 ended it early (start it again), 130 after Ctrl-C.";

using Make = std::function<train::Program(const train::RunConfig&)>;

int parse_and_run(int argc, char** argv, const std::string& name, const Make& make, train::RunConfig defaults) {
  CLI::App app("Trains the model of this program.", name);
  app.footer(kFooter);
  runner::ProgramArguments arguments;
  runner::add_program_options(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: error: {} (see '{} --help')\n", name, error.what(), name);
    return cluster::kUsage;
  }
  defaults.model.is_own = defaults.data.is_own = true;
  if (arguments.help_keys) {
    runner::print_keys(defaults);
    return cluster::kOk;
  }
  runner::refuse_file_without_flag(arguments, name);
  const auto file = arguments.config.empty() ? std::nullopt : std::optional<std::filesystem::path>(arguments.config);
  const auto config = train::load_program_config(std::move(defaults), file, arguments.overrides);
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  return runner::run_program(config, [&] { return make(config); },
                             {.launcher = arguments.launcher,
                              .init = arguments.init,
                              .dry_run = arguments.dry_run,
                              .rank_command = runner::rank_command({self}, arguments)});
}

}  // namespace

int train_main(int argc, char** argv, const Make& make, train::RunConfig defaults) noexcept {
  std::string name = "program";
  try {
    if (argc > 0) name = std::filesystem::path(argv[0]).filename().string();
    return parse_and_run(argc, argv, name, make, std::move(defaults));
  } catch (const c10::Error& error) {
    return cluster::end_with(error, error.what_without_backtrace(), name);
  } catch (const std::exception& error) {
    return cluster::end_with(error, error.what(), name);
  } catch (...) {
    std::fputs("error: something was thrown that is no std::exception\n", stderr);
    return cluster::kFailed;
  }
}

}  // namespace lockstep
