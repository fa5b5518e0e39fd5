#include "operator/operator_process.h"

#include <signal.h>

#include <chrono>

namespace lockstep::test {
namespace {

ChildOptions options_of(const std::filesystem::path& kubeconfig, const std::string& space,
                        std::vector<std::string> more) {
  ChildOptions options;
  options.arguments = {LOCKSTEP_OPERATOR_PROGRAM,
                       "operator",
                       "--kubeconfig",
                       kubeconfig.string(),
                       "--namespace",
                       space,
                       "--lease-seconds",
                       "2",
                       "--log-level",
                       "info",
                       "--burst",
                       "1000",
                       "--requests-per-second",
                       "1000"};
  options.arguments.insert(options.arguments.end(), more.begin(), more.end());
  return options;
}

}  // namespace

OperatorProcess::OperatorProcess(const std::filesystem::path& kubeconfig, const std::string& space,
                                 std::vector<std::string> more)
    : child_(options_of(kubeconfig, space, std::move(more))) {}

void OperatorProcess::kill() {
  child_.signal_group(SIGKILL);
  child_.wait_for(std::chrono::seconds(30));
}

ExitStatus OperatorProcess::stop() { return child_.stop(std::chrono::seconds(30)); }

}  // namespace lockstep::test
