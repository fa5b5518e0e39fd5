// The key-value stores of a rendezvous: c10d's, its server on a given socket, and Lockstep's own with the interface of
// c10d's, so that all users of that interface (PrefixStore) accept it.
#pragma once

#include <lockstep/store/client.h>
#include <lockstep/store/server.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

inline std::vector<std::uint8_t> to_bytes(std::string_view text) { return {text.begin(), text.end()}; }
inline std::string to_text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// c10d's store: a server (`is_server`) with its client, or a client alone. Does not wait for other clients. Throws
/// c10d's exceptions, or std::runtime_error where the server at `port` does not answer until `timeout`.
StorePtr make_tcp_store(const std::string& host, std::uint16_t port, bool is_server, std::chrono::milliseconds timeout);

/// Where a store listens, and the credentials that its clients need.
struct StorePlace {
  std::string host;
  std::uint16_t port = 0;
  store::Credentials credentials{};
};

/// Does the same as c10d::TCPStore, with a deadline on every request: that of setTimeout, where zero means none. Errors
/// are std::runtime_error. Differences: a wait that timed out leaves nothing behind, requests of several threads do not
/// wait for each other, and a key that compareSet creates wakes clients that wait for it. Thread-safe.
class OwnStore final : public c10d::Store {
 public:
  /// `server`: hosted by this process, and kept as long as this object.
  OwnStore(StorePlace place, std::chrono::milliseconds timeout, std::shared_ptr<const store::Server> server = nullptr);

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

  /// Another connection to the same store. Newer versions of libtorch call this for every store.
  c10::intrusive_ptr<c10d::Store> clone();

  std::uint16_t port() const { return place_.port; }

 private:
  std::string ask(store::Operation operation, const store::MessageWriter& fields, std::chrono::milliseconds timeout);
  std::string ask(store::Operation operation, const store::MessageWriter& fields);

  const StorePlace place_;
  const std::shared_ptr<const store::Server> server_;
  store::Client client_;
};

using OwnStorePtr = c10::intrusive_ptr<OwnStore>;

/// One attempt to connect. Errors: those of store::Client.
OwnStorePtr join_own_store(const StorePlace& place, std::chrono::milliseconds timeout);

/// Hosts a store in this process, on `addresses` (store::StoreServerOptions), and connects to it at place.host, as the
/// other ranks do. std::runtime_error when it cannot listen, or cannot be reached there.
OwnStorePtr host_own_store(StorePlace place, std::vector<std::string> addresses, std::chrono::milliseconds timeout);

/// A server of c10d's store on a socket that already listens: c10d itself listens on all addresses of the host, and
/// only newer versions accept a socket instead. `listener` is a blocking socket; the store accepts from it until the
/// process ends. For a process with no other task.
StorePtr serve_tcp_store(int listener);

}  // namespace lockstep::detail
