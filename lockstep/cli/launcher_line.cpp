#include <lockstep/cli/launcher_line.h>
#include <lockstep/cli/run_line.h>

#include <CLI/CLI.hpp>
#include <utility>

namespace lockstep::cli {

std::vector<PetDefault> prepare_launcher(CLI::App& app, std::vector<std::string>& arguments,
                                         std::vector<std::string>& program) {
  if (arguments.empty() || (arguments.front() != "run" && arguments.front() != "launch")) return {};
  CLI::App& command = *app.get_subcommand(arguments.front());
  RunLine line = read_run_line(command, {arguments.begin() + 1, arguments.end()});
  arguments.erase(arguments.begin() + 1, arguments.end());
  arguments.insert(arguments.end(), line.flags.begin(), line.flags.end());
  program = std::move(line.program);
  return apply_pet_defaults(command, line.given, current_environment());
}

}  // namespace lockstep::cli
