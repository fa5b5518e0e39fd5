// `lockstep convert`: configurations of other programs, which become ours.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/cli/command.h>
#include <lockstep/ocr/mindocr/convert.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace lockstep::cli {
namespace {

constexpr const char* kConvertFooter =
    "mindocr: a YAML file of MindOCR for DBNet or CRNN. Keys that say nothing to Lockstep, such as system.mode, are\n"
    "passed over; those with another meaning that could not be carried are listed on stderr and in comments at the\n"
    "beginning of the new file.\n"
    "\n"
    "  lockstep convert mindocr db_r50_icdar15.yaml --out run.yaml\n"
    "  lockstep train --config run.yaml --dry-run\n"
    "\n"
    "Exit code: 0 when converted, 2 when the file is none of MindOCR's.";

struct ConvertArguments {
  std::string from;
  std::string file;
  std::string out;
};

int convert(const ConvertArguments& arguments) {
  const auto converted = ocr::convert_mindocr(load_config(arguments.file).root);
  const auto text = ocr::converted_text(converted, arguments.file);
  if (arguments.out.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_atomically(arguments.out, text);
  }
  for (const auto& note : converted.notes) fmt::print(stderr, "lockstep convert: to do: {}\n", note);
  for (const auto& key : converted.lost) fmt::print(stderr, "lockstep convert: not carried: {}\n", key);
  return kOk;
}

}  // namespace

void add_convert(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("convert", "Write a configuration of another program as one of ours");
  const auto arguments = std::make_shared<ConvertArguments>();
  command->add_option("FROM", arguments->from, "The other program")->required()->check(CLI::IsMember({"mindocr"}));
  command->add_option("FILE", arguments->file, "Its YAML file")->required();
  command->add_option("--out", arguments->out, "Where ours is written; stdout otherwise")->type_name("FILE");
  command->footer(kConvertFooter);
  command->callback([=, &chosen] { chosen = [=] { return convert(*arguments); }; });
}

}  // namespace lockstep::cli
