// The key-value stores in which ranks meet: Lockstep's own as a store of c10d, so that whatever takes one of those
// (Gloo, PrefixStore) takes this one, and c10d's.
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
/// what c10d does, or std::runtime_error where the server at `port` does not answer until `timeout`.
StorePtr make_tcp_store(const std::string& host, std::uint16_t port, bool is_server, std::chrono::milliseconds timeout);

/// Where a store listens, and what its clients have to know.
struct StorePlace {
  std::string host;
  std::uint16_t port = 0;
  store::Credentials credentials{};
};

/// Does what c10d::TCPStore does, with a deadline on every request: that of setTimeout, where zero means none. Errors
/// are std::runtime_error. Unlike there a wait that timed out leaves nothing behind, requests of several threads do not
/// wait for each other, and keys that compareSet makes are noticed by who waits for them. Thread-safe.
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

  /// Another connection to the same store. Newer versions of libtorch ask every store for that.
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

/// Hosts a store in this process, on `addresses` (store::StoreServerOptions), and connects to it as the others do, at
/// place.host. std::runtime_error when it cannot listen or not be reached there.
OwnStorePtr host_own_store(StorePlace place, std::vector<std::string> addresses, std::chrono::milliseconds timeout);

}  // namespace lockstep::detail
