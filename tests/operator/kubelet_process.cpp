#include "operator/kubelet_process.h"

#include <fmt/format.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "operator/kube_server.h"
#include "operator/kubelet/sandbox.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

ChildOptions options_of(const fs::path& folder, const std::string& space, int nodes) {
  fs::create_directories(folder / "claims" / "data");
  ChildOptions options;
  options.arguments = {LOCKSTEP_KUBELET_PROGRAM,
                       "--kubeconfig",
                       KubeServer::get().kubeconfig().string(),
                       "--namespace",
                       space,
                       "--folder",
                       (folder / "kubelet").string(),
                       "--claims",
                       (folder / "claims").string(),
                       "--path",
                       fs::path(LOCKSTEP_BINARY).parent_path().string(),
                       "--node",
                       space,
                       "--nodes",
                       std::to_string(nodes)};
  return options;
}

}  // namespace

std::optional<std::string> KubeletProcess::obstacle() {
  const auto why = sandbox_obstacle();
  return why.empty() ? std::nullopt : std::optional(why);
}

KubeletProcess::KubeletProcess(const std::string& space, int nodes)
    : folder_("lockstep-kubelet"), space_(space), child_(options_of(folder_.path(), space, nodes)) {}

std::string KubeletProcess::node(int index) const { return fmt::format("{}-{}", space_, index); }

void KubeletProcess::command(const std::string& line) {
  std::ofstream fifo(folder_.path() / "kubelet" / "commands");
  fifo << line << std::endl;
  if (!fifo) fail(ErrorKind::io, "test", "the kubelet takes no command");
}

std::string KubeletProcess::log(const std::string& pod) const {
  std::string newest;
  for (int life = 0;; ++life) {
    auto text = read_file(folder_.path() / "kubelet" / "logs" / fmt::format("{}.{}.log", pod, life));
    if (!text) return newest;
    newest = std::move(*text);
  }
}

}  // namespace lockstep::test
