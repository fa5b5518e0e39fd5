// One key of an etcd, read and written as a whole.
#pragma once

#include <lockstep/cluster/etcd/client.h>

#include <chrono>
#include <optional>
#include <string>

namespace lockstep::cluster::etcd {

/// Not thread-safe. The key has no lease: it stays until a client deletes it. Each call throws what Client::call
/// does, and Error(io) with etcd's reason when etcd does not do it.
class Entry {
 public:
  Entry(const Address& address, std::string key);

  /// nullopt: there is no such key.
  std::optional<std::string> read(std::chrono::milliseconds limit);
  void write(const std::string& value, std::chrono::milliseconds limit);

  /// "/job-1 in the etcd at a:2379, b:2379".
  std::string describe() const;

 private:
  nlohmann::json ask(const std::string& path, const nlohmann::json& request, std::chrono::milliseconds limit);

  std::string key_;
  Client client_;
};

}  // namespace lockstep::cluster::etcd
