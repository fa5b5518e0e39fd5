// A small CLI11 application with the subcommands that need no libtorch.
#include <lockstep/base/shown_text.h>
#include <lockstep/cli/app_commands.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

namespace lockstep::cli {

std::optional<int> run_plain_command(const std::vector<std::string>& words, const AppCommands& apps) {
  if (words.empty()) return std::nullopt;
  CLI::App app("", "lockstep");
  app.require_subcommand(1);
  Action chosen;
  apps.add(app, chosen);
  add_convert(app, apps.converters, chosen);
  const auto is_wanted = [&](const CLI::App* command) { return command->get_name() == words.front(); };
  if (app.get_subcommands(is_wanted).empty()) return std::nullopt;
  auto arguments = words;
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the reverse order
    app.parse(std::move(arguments));
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "lockstep: error: {} (see 'lockstep {} --help')\n", shown_message(error.what()), words.front());
    return kUsage;
  }
  return chosen();
}

}  // namespace lockstep::cli
