// `lockstep operator` as a process of its own.
#pragma once

#include <lockstep/base/process.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

/// Runs for one namespace, with a short Lease, until it is destroyed (SIGKILL) or stopped (SIGTERM). What it logs goes
/// to this process's stderr.
class OperatorProcess {
 public:
  OperatorProcess(const std::filesystem::path& kubeconfig, const std::string& space,
                  std::vector<std::string> more = {});

  void kill();
  ExitStatus stop();
  Child& child() { return child_; }

 private:
  Child child_;
};

}  // namespace lockstep::test
