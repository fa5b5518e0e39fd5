// `lockstep convert` for jobs of other operators.
#include <apps/operator/command.h>
#include <apps/operator/job/convert.h>
#include <apps/operator/job/json_yaml.h>
#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace lockstep::kube {
namespace {

constexpr const char* kJobFooter =
    "Writes a LockstepJob. What has no counterpart, or another meaning, is reported on stderr.";

cli::ConvertedFile from_job(const std::string& file, Converted (*converter)(const nlohmann::ordered_json&)) {
  const auto text = read_file(file);
  if (!text) fail(ErrorKind::config, "convert", "cannot read '{}': {}", file, std::strerror(errno));
  cli::ConvertedFile result;
  for (const auto& object : parse_yaml_documents(*text, file)) {
    const auto converted = converter(object);
    if (!result.text.empty()) result.text += "---\n";
    result.text += print_yaml_of(converted.job);
    for (const auto& remark : converted.remarks) result.remarks.push_back(fmt::format("{}: {}", file, remark));
  }
  if (result.text.empty()) fail(ErrorKind::config, "convert", "'{}' holds no object", file);
  return result;
}

cli::Converter job_converter(const char* name, const char* help, const char* example,
                             Converted (*converter)(const nlohmann::ordered_json&)) {
  return {name, help, kJobFooter, example, [converter](const std::string& file) { return from_job(file, converter); }};
}

}  // namespace

std::vector<cli::Converter> job_converters() {
  return {job_converter("msjob", "MSJobs of the MindSpore operator, as LockstepJobs", "lenet.yaml > job.yaml",
                        convert_msjob),
          job_converter("pytorchjob", "PyTorchJobs of Kubeflow, as LockstepJobs", "mnist.yaml | kubectl apply -f -",
                        convert_pytorchjob),
          job_converter("trainjob", "TrainJobs of Kubeflow's Trainer, as LockstepJobs", "trainjob.yaml > job.yaml",
                        convert_trainjob)};
}

cli::AppCommands operator_commands() { return {add_operator, job_converters()}; }

}  // namespace lockstep::kube
