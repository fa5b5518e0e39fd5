// Requests to a cluster of etcd servers (v3) through their HTTP gateway, and one key read and written as a whole.
#pragma once

#include <lockstep/net/client_tls.h>
#include <lockstep/net/http_client.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster::etcd {

/// Requests to a cluster of etcd servers (v3) through their HTTP gateway.
using net::HttpServer;
using net::TlsFiles;

struct Address {
  std::vector<HttpServer> servers;                           ///< of one cluster; any of them can serve
  std::optional<TlsFiles> tls{};                             ///< nullopt: plain HTTP
  std::string named = "--rdzv_endpoint";                     ///< the setting with the address, for messages
  std::string tls_hint = "give --rdzv_conf protocol=https";  ///< the way to enable TLS, for messages
};

/// The result of a request.
struct EtcdAnswer {
  nlohmann::json body;  ///< an object
  /// The reason of etcd for not executing it, e.g. "etcdserver: requested lease not found"; empty: executed.
  std::string refusal;
};

/// Uses one server as long as it answers, and the next one when it does not. Not thread-safe.
class Client {
 public:
  /// Connects at the first request. Error(invalid_argument) without servers, Error(io) for files of TLS that cannot be
  /// used.
  explicit Client(const Address& address);

  /// Posts `request` to e.g. "/v3/kv/range", and repeats it as long as no server answers or the cluster has no leader;
  /// logs that after 2 s and then every 10 s. Error(timeout) at the deadline, with the failure of each server;
  /// Error(io), at once, when a server's answer is not one of etcd or it does not agree on TLS.
  EtcdAnswer call(const std::string& path, const nlohmann::json& request,
                  std::chrono::steady_clock::time_point deadline);

  /// The server of the next request: the one that answered last, if any.
  const HttpServer& server() const { return clients_[current_].server(); }

  /// "etcd at a:2379, b:2379".
  std::string describe() const;

 private:
  [[noreturn]] void give_up(std::chrono::steady_clock::duration waited) const;

  bool tls_;
  std::string named_;
  std::string tls_hint_;
  std::vector<net::HttpClient> clients_;  ///< one for each server
  std::vector<std::string> reasons_;      ///< why each server did not answer at the last attempt
  std::size_t current_ = 0;
};

/// One key of an etcd, read and written as a whole. Not thread-safe. The key has no lease: it stays until a client
/// deletes it. Each call throws the errors of Client::call, and Error(io) with etcd's reason when etcd refuses it.
class Entry {
 public:
  Entry(const Address& address, std::string key);

  /// nullopt: there is no such key.
  std::optional<std::string> read(std::chrono::milliseconds limit);
  void write(const std::string& value, std::chrono::milliseconds limit);
  /// Succeeds also where there is no such key.
  void remove(std::chrono::milliseconds limit);

  /// "/job-1 in the etcd at a:2379, b:2379".
  std::string describe() const;

 private:
  nlohmann::json ask(const std::string& path, const nlohmann::json& request, std::chrono::milliseconds limit);

  std::string key_;
  Client client_;
};

}  // namespace lockstep::cluster::etcd
