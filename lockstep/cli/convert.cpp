// `lockstep convert`: the conversion of configurations and jobs of other programs. No libtorch.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/cli/app_commands.h>
#include <lockstep/ocr/mindocr/convert.h>

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kMindocrFooter =
    "A YAML file of MindOCR for DBNet or CRNN. Keys that could not be carried, and those that mean nothing here,\n"
    "such as system.mode, are listed on stderr and in comments at the beginning of the new file. Another model of\n"
    "MindOCR ends with code 2 and its name, and so does a detector with several label files.";

ConvertedFile from_mindocr(const std::string& file) {
  const auto converted = ocr::convert_mindocr(load_config(file).root);
  ConvertedFile result{ocr::converted_text(converted, file), {}};
  for (const auto& note : converted.notes) result.remarks.push_back("to do: " + note);
  for (const auto& key : converted.lost) result.remarks.push_back("not carried: " + key);
  if (!converted.passed_over.empty()) {
    result.remarks.push_back(
        fmt::format("ignored, as it has no effect here: {}", fmt::join(converted.passed_over, ", ")));
  }
  return result;
}

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
  add({"mindocr", "A configuration of MindOCR, for Lockstep", kMindocrFooter,
       "db_r50_icdar15.yaml --out run.yaml && lockstep train --config run.yaml --dry-run", from_mindocr});
  for (const Converter& converter : converters) add(converter);
  command->footer(examples);
}

}  // namespace lockstep::cli
