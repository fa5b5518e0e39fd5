// The operator's commands, and the conversion of MindOCR's configurations for `lockstep convert`.
#include <apps/lockstep/app_commands.h>
#include <apps/ocr/mindocr/convert.h>
#include <apps/operator/command.h>
#include <lockstep/base/config.h>

#include <fmt/ranges.h>

#include <string>

namespace lockstep {
namespace {

constexpr const char* kMindocrFooter =
    "A YAML file of MindOCR for DBNet or CRNN. Keys that could not be carried, and those that mean nothing here,\n"
    "such as system.mode, are listed on stderr and in comments at the beginning of the new file. Another model of\n"
    "MindOCR ends with code 2 and its name, and so does a detector with several label files.";

cli::ConvertedFile from_mindocr(const std::string& file) {
  const auto converted = ocr::convert_mindocr(load_config(file).root);
  cli::ConvertedFile result{ocr::converted_text(converted, file), {}};
  for (const auto& note : converted.notes) result.remarks.push_back("to do: " + note);
  for (const auto& key : converted.lost) result.remarks.push_back("not carried: " + key);
  if (!converted.passed_over.empty()) {
    result.remarks.push_back(
        fmt::format("ignored, as it has no effect here: {}", fmt::join(converted.passed_over, ", ")));
  }
  return result;
}

}  // namespace

cli::AppCommands app_commands() {
  auto commands = kube::operator_commands();
  commands.converters.insert(
      commands.converters.begin(),
      {"mindocr", "A configuration of MindOCR, for Lockstep", kMindocrFooter,
       "db_r50_icdar15.yaml --out run.yaml && lockstep train --config run.yaml --dry-run", from_mindocr});
  return commands;
}

}  // namespace lockstep
