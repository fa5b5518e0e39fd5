// A small CLI11 application with the subcommands operator and convert, for images without libtorch.
#include <lockstep/base/shown_text.h>
#include <lockstep/cli/command.h>
#include <lockstep/cli/kube_commands.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

namespace lockstep::cli {

std::optional<int> run_kube_command(const std::vector<std::string>& words) {
  if (words.empty() || (words.front() != "operator" && words.front() != "convert")) return std::nullopt;
  CLI::App app("", "lockstep");
  app.require_subcommand(1);
  Action chosen;
  add_operator(app, chosen);
  add_convert(app, chosen);
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
