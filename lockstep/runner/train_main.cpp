#include <lockstep/base/error.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/runner/run_program.h>
#include <lockstep/runner/trainer.h>
#include <lockstep/train/configuration/config_keys.h>

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

/// How a program of a user gets its configuration and makes its parts.
struct Own {
  std::function<train::RunConfig(const runner::ProgramArguments&)> load;
  std::function<train::Program(const train::RunConfig&)> make;
  train::RunConfig defaults;  ///< what --help-keys lists
};

int parse_and_run(int argc, char** argv, const std::string& name, const Own& own) {
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
  if (runner::answers_about_parts(arguments, own.defaults)) return cluster::kOk;
  runner::refuse_file_without_flag(arguments, name);
  const auto config = own.load(arguments);
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  return runner::run_program(config, [&] { return own.make(config); },
                             {.launcher = arguments.launcher,
                              .init = arguments.init,
                              .dry_run = arguments.dry_run,
                              .rank_command = runner::rank_command({self}, arguments)});
}

int run_and_report(int argc, char** argv, const std::function<Own()>& own) noexcept {
  std::string name = "program";
  try {
    if (argc > 0) name = std::filesystem::path(argv[0]).filename().string();
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
    defaults.model.is_own = defaults.data.is_own = true;
    if (!defaults.callbacks.parts) {
      defaults.callbacks.parts = std::make_shared<const train::Parts>(train::shipped_parts());
    }
    const auto load = [defaults](const runner::ProgramArguments& arguments) {
      const auto file =
          arguments.config.empty() ? std::nullopt : std::optional<std::filesystem::path>(arguments.config);
      return train::load_program_config(defaults, file, runner::all_overrides(arguments));
    };
    return Own{load, make, defaults};
  });
}

int train_main(int argc, char** argv, const train::Program& program, const std::string& yaml) noexcept {
  return run_and_report(argc, argv, [&] {
    const auto load = [&](const runner::ProgramArguments& arguments) {
      if (!arguments.config.empty()) {
        fail(ErrorKind::invalid_argument, "train",
             "--config {}: the configuration of this program stands in its source; KEY=VALUE changes a key of it",
             arguments.config);
      }
      return train::parse_run_config(yaml, program, runner::all_overrides(arguments));
    };
    return Own{load, [&](const train::RunConfig&) { return program; }, train::parse_run_config(yaml, program)};
  });
}

int train_main(int argc, char** argv, train::Parts parts) noexcept {
  return run_and_report(argc, argv, [&] {
    const auto shared = std::make_shared<const train::Parts>(std::move(parts));
    const auto load = [shared](const runner::ProgramArguments& arguments) {
      if (arguments.config.empty()) {
        fail(ErrorKind::invalid_argument, "train", "--config FILE is missing: it names the parts of the run");
      }
      return train::load_run_config(arguments.config, runner::all_overrides(arguments), shared);
    };
    return Own{load, train::configured_program, train::config_with(shared)};
  });
}

}  // namespace lockstep
