// The subcommands that need no libtorch: `lockstep convert`, the conversion of configurations and jobs of other
// programs, and those of applications, in a small CLI11 application.
#include <lockstep/base/files.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cli/command.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

int convert(const std::string& file, const std::string& out, const Converter& converter) {
  const auto result = converter.convert(file);
  if (out.empty()) {
    fmt::print("{}", result.text);
    std::fflush(stdout);
  } else {
    write_file_atomically(out, result.text);
  }
  for (const auto& remark : result.remarks) fmt::print(stderr, "lockstep convert: {}\n", remark);
  return kOk;
}

}  // namespace

void add_convert(CLI::App& app, const std::vector<Converter>& converters, Action& chosen) {
  CLI::App* command = app.add_subcommand("convert", "Convert a configuration or a job of another program for Lockstep");
  command->require_subcommand(1);
  std::string examples = "Examples:";
  const auto add = [&](const Converter& converter) {
    const auto file = std::make_shared<std::string>();
    const auto out = std::make_shared<std::string>();
    CLI::App* kind = command->add_subcommand(converter.name, converter.help);
    kind->footer(converter.footer);
    kind->add_option("FILE", *file, "A YAML file; for jobs also JSON, of one or more objects")
        ->required()
        ->type_name("");
    kind->add_option("--out", *out, "The file to write (default: stdout)")->type_name("FILE");
    kind->callback([=, &chosen] { chosen = [=] { return convert(*file, *out, converter); }; });
    examples += fmt::format("\n  lockstep convert {} {}", converter.name, converter.example);
  };
  for (const Converter& converter : converters) add(converter);
  command->footer(examples);
}

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
