// The commands of `lockstep`: its own subcommands, what an application beside lockstep/ adds, and the two executables
// as functions. cli/ includes no application: the main functions in apps/lockstep/ pass the values.
#pragma once

#include <lockstep/cluster/failure.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::train {
struct Parts;
}

namespace lockstep::cli {

using cluster::kFailed;
using cluster::kOk;
using cluster::kUsage;

/// The parts that a configuration can name, before its plugins.
using KnownParts = std::shared_ptr<const train::Parts>;

/// The selected command; its result is the exit code.
using Action = std::function<int()>;

/// The result of the conversion of a file, and remarks on it.
struct ConvertedFile {
  std::string text;
  std::vector<std::string> remarks;
};

/// A subcommand of `lockstep convert`.
struct Converter {
  std::string name;
  std::string help;
  std::string footer;
  std::string example;  ///< its arguments in an example of a command line
  std::function<ConvertedFile(const std::string& file)> convert;
};

/// The help text of --dashboard, for commands that serve the live page of a job.
inline constexpr const char* kDashboardHelp =
    "Serve a page that shows the job while it runs, and print its address to stderr. PORT: at 127.0.0.1; HOST:PORT: at "
    "an address that other machines reach; 0 or no value: at a free port. The address has a token, without which the "
    "page cannot be opened";

// Each adds its subcommand to `app`, which sets `chosen` when the user gave it.
void add_train(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_eval(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_predict(CLI::App& app, const KnownParts& parts, Action& chosen);
// When the action runs, `program` has the arguments that read_run_line() found after the flags.
void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen);
void add_launch(CLI::App& app, const std::vector<std::string>& program, Action& chosen);
void add_plan(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_calibrate(CLI::App& app, Action& chosen);
void add_data(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_checkpoint(CLI::App& app, Action& chosen);
void add_rank_table(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_certs(CLI::App& app, Action& chosen);
void add_scheduler(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_status(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_convert(CLI::App& app, const std::vector<Converter>& converters, Action& chosen);
void add_info(CLI::App& app, const KnownParts& parts, Action& chosen);

/// What an application beside lockstep/ (apps/) adds. None of it needs libtorch, because the small program executes
/// these commands, so that an image of the operator needs no libtorch.
struct AppCommands {
  std::function<void(CLI::App& app, Action& chosen)> add;  ///< adds subcommands of `lockstep`, as above
  std::vector<Converter> converters;
};

/// The small program: starts ranks if that needs no libtorch, and executes the whole program otherwise. Errors
/// are printed to stderr.
int run_small_program(int argc, char** argv, const AppCommands& apps);

/// The whole program: parses the command, executes it, prints errors to stderr as `lockstep: error: ...`.
/// Configurations can name `parts`.
int run_whole_program(int argc, char** argv, const AppCommands& apps, const KnownParts& parts) noexcept;

/// `lockstep convert` and the commands of applications: parses and executes the command if `words` (without the
/// program) begin with one of them; nullopt: they do not. Errors: those of the command.
std::optional<int> run_plain_command(const std::vector<std::string>& words, const AppCommands& apps);

}  // namespace lockstep::cli
