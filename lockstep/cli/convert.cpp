// `lockstep convert`: jobs of other Kubernetes operators as LockstepJobs.
#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/cli/command.h>
#include <lockstep/operator/job/convert.h>
#include <lockstep/operator/job/json_yaml.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace lockstep::cli {
namespace {

constexpr const char* kConvertFooter =
    "Prints a LockstepJob. What has no counterpart, or another meaning, is said on stderr.\n"
    "\n"
    "Examples:\n"
    "  lockstep convert msjob lenet.yaml > job.yaml\n"
    "  lockstep convert pytorchjob mnist.yaml | kubectl apply -f -";

using Convert = kube::Converted (*)(const nlohmann::ordered_json&);

int convert(const std::string& file, Convert converter) {
  const auto text = read_file(file);
  if (!text) fail(ErrorKind::config, "convert", "cannot read '{}': {}", file, std::strerror(errno));
  std::string separator;
  for (const auto& object : kube::parse_yaml_documents(*text, file)) {
    const auto converted = converter(object);
    fmt::print("{}{}", separator, kube::print_yaml_of(converted.job));
    for (const auto& remark : converted.remarks) fmt::print(stderr, "lockstep convert: {}: {}\n", file, remark);
    separator = "---\n";
  }
  if (separator.empty()) fail(ErrorKind::config, "convert", "'{}' holds no object", file);
  std::fflush(stdout);
  return kOk;
}

}  // namespace

void add_convert(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("convert", "Turn jobs of other Kubernetes operators into LockstepJobs");
  command->require_subcommand(1);
  command->footer(kConvertFooter);
  const auto add = [&](const char* name, const char* help, Convert converter) {
    const auto file = std::make_shared<std::string>();
    CLI::App* kind = command->add_subcommand(name, help);
    kind->add_option("FILE", *file, "YAML or JSON, one or more objects")->required()->type_name("");
    kind->callback([=, &chosen] { chosen = [=] { return convert(*file, converter); }; });
  };
  add("msjob", "MSJobs of the MindSpore operator", kube::convert_msjob);
  add("pytorchjob", "PyTorchJobs of Kubeflow", kube::convert_pytorchjob);
}

}  // namespace lockstep::cli
