// `lockstep convert`: the conversion of configurations and jobs of other programs. No libtorch.
#include <apps/operator/job/convert.h>
#include <apps/operator/job/json_yaml.h>
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/cli/command.h>
#include <lockstep/ocr/mindocr/convert.h>

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kConvertFooter =
    "Examples:\n"
    "  lockstep convert mindocr db_r50_icdar15.yaml --out run.yaml && lockstep train --config run.yaml --dry-run\n"
    "  lockstep convert msjob lenet.yaml > job.yaml\n"
    "  lockstep convert pytorchjob mnist.yaml | kubectl apply -f -\n"
    "  lockstep convert trainjob trainjob.yaml > job.yaml";

constexpr const char* kMindocrFooter =
    "A YAML file of MindOCR for DBNet or CRNN. Keys that could not be carried, and those that mean nothing here,\n"
    "such as system.mode, are listed on stderr and in comments at the beginning of the new file. Another model of\n"
    "MindOCR ends with code 2 and its name, and so does a detector with several label files.";

constexpr const char* kJobFooter =
    "Writes a LockstepJob. What has no counterpart, or another meaning, is reported on stderr.";

/// The result of the conversion of a file, and remarks on it.
struct Result {
  std::string text;
  std::vector<std::string> remarks;
};
using Convert = std::function<Result(const std::string& file)>;

Result from_mindocr(const std::string& file) {
  const auto converted = ocr::convert_mindocr(load_config(file).root);
  Result result{ocr::converted_text(converted, file), {}};
  for (const auto& note : converted.notes) result.remarks.push_back("to do: " + note);
  for (const auto& key : converted.lost) result.remarks.push_back("not carried: " + key);
  if (!converted.passed_over.empty()) {
    result.remarks.push_back(
        fmt::format("ignored, as it has no effect here: {}", fmt::join(converted.passed_over, ", ")));
  }
  return result;
}

Result from_job(const std::string& file, kube::Converted (*converter)(const nlohmann::ordered_json&)) {
  const auto text = read_file(file);
  if (!text) fail(ErrorKind::config, "convert", "cannot read '{}': {}", file, std::strerror(errno));
  Result result;
  for (const auto& object : kube::parse_yaml_documents(*text, file)) {
    const auto converted = converter(object);
    if (!result.text.empty()) result.text += "---\n";
    result.text += kube::print_yaml_of(converted.job);
    for (const auto& remark : converted.remarks) result.remarks.push_back(fmt::format("{}: {}", file, remark));
  }
  if (result.text.empty()) fail(ErrorKind::config, "convert", "'{}' holds no object", file);
  return result;
}

int convert(const std::string& file, const std::string& out, const Convert& converter) {
  const auto result = converter(file);
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

void add_convert(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("convert", "Convert a configuration or a job of another program for Lockstep");
  command->require_subcommand(1);
  command->footer(kConvertFooter);
  const auto add = [&](const char* name, const char* help, const char* footer, Convert converter) {
    const auto file = std::make_shared<std::string>();
    const auto out = std::make_shared<std::string>();
    CLI::App* kind = command->add_subcommand(name, help);
    kind->footer(footer);
    kind->add_option("FILE", *file, "A YAML file; for jobs also JSON, of one or more objects")
        ->required()
        ->type_name("");
    kind->add_option("--out", *out, "The file to write (default: stdout)")->type_name("FILE");
    kind->callback([=, &chosen] { chosen = [=] { return convert(*file, *out, converter); }; });
  };
  add("mindocr", "A configuration of MindOCR, for Lockstep", kMindocrFooter, from_mindocr);
  add("msjob", "MSJobs of the MindSpore operator, as LockstepJobs", kJobFooter,
      [](const std::string& file) { return from_job(file, kube::convert_msjob); });
  add("pytorchjob", "PyTorchJobs of Kubeflow, as LockstepJobs", kJobFooter,
      [](const std::string& file) { return from_job(file, kube::convert_pytorchjob); });
  add("trainjob", "TrainJobs of Kubeflow's Trainer, as LockstepJobs", kJobFooter,
      [](const std::string& file) { return from_job(file, kube::convert_trainjob); });
}

}  // namespace lockstep::cli
