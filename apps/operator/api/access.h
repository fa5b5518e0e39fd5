// The address and credentials of an API server, from a kubeconfig or from the service account of this process's Pod.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/net/http_client.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::kube {

struct Access {
  net::HttpServer server;
  std::string base_path{};                           ///< before each path, for servers behind a proxy
  std::shared_ptr<boost::asio::ssl::context> tls{};  ///< null: plain HTTP
  std::string token{};                               ///< bearer token; empty: none, or that of the file
  std::filesystem::path token_file{};                ///< read again regularly, because tokens rotate
  std::string space = "default";                     ///< the namespace that the source names
  std::string origin{};                              ///< the source of these values, for messages
  std::vector<std::string> warnings{};
};

/// The access that `kubeconfig` gives (files separated by ':'); empty: what KUBECONFIG names, else the service account
/// where KUBERNETES_SERVICE_HOST is set, else ~/.kube/config. `context` empty: the current one. Error(config), with
/// file and line where there are any, for what cannot be used.
Access find_access(const std::string& kubeconfig, const std::string& context, const Environment& environment);

/// The service account in `folder`.
Access access_in_cluster(const Environment& environment, const std::filesystem::path& folder);

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

}  // namespace lockstep::kube
