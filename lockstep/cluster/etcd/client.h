// Requests to a cluster of etcd servers (v3) through their HTTP gateway, one key read and written as a whole, and the
// JSON of requests and of the fields that are read from answers. There keys and values are base64, integers of 64 bits
// are text. All input is from a server: a field of another type is Error(io). Also text forms of the cluster's address:
// HOST:PORT, and URLs that also name a key and TLS files.
#pragma once

#include <lockstep/net/http_client.h>
#include <lockstep/net/tls_contexts.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

/// Requests inside a transaction: find a key, write one that exists as long as the lease, delete one.
nlohmann::json find_in_txn(const std::string& key);
nlohmann::json put_in_txn(const std::string& key, const std::string& value, const std::string& lease);
nlohmann::json delete_in_txn(const std::string& key);

/// A transaction that executes all of `requests`, or, with a condition or an array of them, one of two lists of
/// requests.
nlohmann::json txn(const nlohmann::json& requests);
nlohmann::json txn(const nlohmann::json& condition, const nlohmann::json& then, const nlohmann::json& otherwise);

/// A transaction's condition that `key` is the one that was created at this revision; 0: that it does not exist.
nlohmann::json if_created_at(const std::string& key, std::int64_t revision);

/// A transaction's condition that the last write of `key` was at this revision; 0: that it does not exist.
nlohmann::json if_written_at(const std::string& key, std::int64_t revision);

/// The revision of the last write of an entry; 0 for null.
std::int64_t revision_of_entry(const nlohmann::json& entry);

/// The revision of the store after an answer's request.
std::int64_t revision_of(const nlohmann::json& answer);

/// Whether a transaction's conditions held.
bool succeeded(const nlohmann::json& answer);

/// The result of the `index`th request of a transaction, a range of one key: its entry, or null.
nlohmann::json entry_in_txn(const nlohmann::json& answer, std::size_t index);

/// The value in an entry; nullopt for null.
std::optional<std::string> value_of(const nlohmann::json& entry);

/// Whether the answer to a "keep alive" shows that the lease exists.
bool lease_is_alive(const nlohmann::json& answer);

/// HOST, HOST:PORT, or an IPv6 address, which needs brackets before a port; the port defaults to 2379. nullopt for
/// anything else.
std::optional<HttpServer> parse_server(std::string_view text);

struct Url {
  Address address;
  std::string key;  ///< with its leading slash
};

/// Whether a text begins as an address does: "etcd://" or, for TLS, "etcds://".
bool is_url(std::string_view text);

/// etcd://HOST[:PORT][,HOST[:PORT]...]/KEY, or etcds://.../KEY[?ca_cert=FILE&ssl_cert=FILE&ssl_cert_key=FILE].
/// Error(environment) for anything else; its message begins with `named`, the source of the text.
Url parse_url(std::string_view text, const std::string& named);

}  // namespace lockstep::cluster::etcd
