// The test kubelet as a process, for the namespace of one test.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::test {

class KubeletProcess {
 public:
  /// Why Pods cannot run here; nullopt: they can.
  static std::optional<std::string> obstacle();

  explicit KubeletProcess(const std::string& space, int nodes = 2);

  /// The volume claim "data" of Pods.
  std::filesystem::path data() const { return folder_.path() / "claims" / "data"; }
  /// "node-0" in full: nodes have no namespace, and other tests have some too.
  std::string node(int index) const;

  /// "kill mlp-worker-1", as kubelet/kubelet.h lists them.
  void command(const std::string& line);

  /// What the newest Pod of this name has printed.
  std::string log(const std::string& pod) const;

 private:
  TemporaryFolder folder_;
  std::string space_;
  Child child_;
};

}  // namespace lockstep::test
