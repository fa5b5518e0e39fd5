// `lockstep convert`: the conversion of configurations and jobs of other programs. No libtorch.
#include <lockstep/base/files.h>
#include <lockstep/cli/app_commands.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
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

}  // namespace lockstep::cli
