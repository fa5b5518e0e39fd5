// A real Kubernetes API server for the tests of one binary, without kubelets: tests write the status of Pods
// themselves.
#pragma once

#include <apps/operator/api/client.h>
#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace lockstep::test {

class KubeServer {
 public:
  ~KubeServer();
  KubeServer(const KubeServer&) = delete;
  KubeServer& operator=(const KubeServer&) = delete;

  /// The one server of this process, started at the first call; it ends with the process.
  static KubeServer& get();
  /// Why there can be none here; nullopt: there can.
  static std::optional<std::string> obstacle();

  const std::string& variable(const std::string& name) const { return variables_.at(name); }
  std::filesystem::path kubeconfig() const { return variable("KUBECONFIG"); }
  std::filesystem::path certificate_kubeconfig() const;

  kube::Access access() const;
  kube::ApiClient client() const { return kube::ApiClient(access()); }

  /// Kills the API server; starts it again and waits until it answers.
  void take_away();
  void bring_back();

  /// A new namespace with a service account, for one test.
  std::string new_space();

  /// kubectl of the same version, as the administrator.
  Captured kubectl(std::vector<std::string> arguments) const;

 private:
  KubeServer();
  void start();
  std::string last_lines() const;

  TemporaryFolder away_;  ///< a file `away` in it keeps the API server from running
  std::optional<Child> script_;
  std::map<std::string, std::string> variables_;
  int spaces_ = 0;
};

}  // namespace lockstep::test
