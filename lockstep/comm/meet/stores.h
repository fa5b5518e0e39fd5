// The key-value stores through which ranks find each other, in a file or on a TCP port: c10d's, its server on a given
// socket, and Lockstep's own with the interface of c10d's, so that all users of that interface (PrefixStore) accept it;
// and the ways to open the store of a rendezvous or to join it.
#pragma once

#include <lockstep/membership/member_session.h>
#include <lockstep/store/client.h>
#include <lockstep/store/server.h>
#include <lockstep/world/world.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
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

struct OpenedStore {
  StorePtr store;          ///< keys of one rendezvous, under the world's prefix
  bool held_here = false;  ///< this process hosts it, and it ends with the process
  std::string where;       ///< "10.0.0.1:29500" or a path, for messages
  std::string host;        ///< the host alone; empty where it is no TCP store
  std::uint16_t port = 0;
};

/// Opens the next rendezvous (rank 0), or joins it. `session`: with Rendezvous::scheduler, to publish the address of
/// rank 0's store. Error(io) when rank 0 cannot open the port; Error(timeout) when the store of rank 0 cannot be
/// reached, or still belongs to an earlier rendezvous.
OpenedStore open_store(const World& world, std::chrono::milliseconds timeout, MemberSession* session = nullptr);

/// A second connection to the rendezvous that a start-up of this rank opens or waits for, with the same keys: at
/// host:port, or in the file of `world`. `found`: the start-up has reached it. Errors as for open_store().
StorePtr visit_store(const World& world, const std::string& host, std::uint16_t port, bool found,
                     std::chrono::milliseconds timeout);

// The rendezvous in a file that other jobs may have used before (file_rendezvous.cpp):

/// The store in the file world.store_path, with keys under a prefix that only this rendezvous uses. Keys that a killed
/// earlier job left in the file are recognised and ignored. The last rank to leave removes the file.
///
/// Waits until all ranks of the world have arrived. Error(timeout) names the missing ranks; Error(io) when the file
/// cannot be created, is not a store, or another job starts its rendezvous there meanwhile.
OpenedStore meet_in_file(const World& world, std::chrono::milliseconds timeout);

// The rendezvous in a store that listens on a TCP port; rank 0 hosts it, or a launcher does (tcp_rendezvous.cpp):

/// Rank 0 hosts the store of one rendezvous at opened.host and opened.port (0: a free port), and opens the rendezvous.
/// Error(io) when it cannot listen there.
void host_rendezvous(OpenedStore& opened, const World& world, std::chrono::milliseconds timeout);

/// The keys of the next rendezvous in a store that another process holds. `give_up` is called repeatedly and throws the
/// reason to stop waiting. Error(timeout) when the store cannot be reached, or still belongs to an earlier rendezvous.
StorePtr reach_tcp_store(const World& world, const std::string& host, std::uint16_t port,
                         std::chrono::milliseconds timeout, const std::function<void()>& give_up = {});

/// As visit_store(), for a store at host:port.
StorePtr visit_tcp_store(const World& world, const std::string& host, std::uint16_t port, bool found,
                         std::chrono::milliseconds timeout);

/// The keys of this rank's rendezvous in a store that never holds another one.
StorePtr keys_of_only_rendezvous(const World& world, const StorePtr& store, std::chrono::milliseconds timeout);

// Collectives over MPI before a store exists: they carry the address of the store that rank 0 opened (mpi/runtime.cpp).
namespace mpi {

struct MpiEndpoint {
  std::string host;
  std::uint16_t port = 0;
};

/// Error(environment) unless MPI's rank and size of this process equal those of its world. They differ under the
/// launcher of another MPI than the one of this build, because each process is then a separate job. Starts MPI if
/// needed.
void require_same(const World& world);

/// Collective over MPI_COMM_WORLD: whether all of it runs on one machine. Starts MPI if needed.
bool all_on_one_host(std::chrono::milliseconds timeout);

/// Collective over MPI_COMM_WORLD: rank 0's endpoint. Error(timeout) when not all ranks take part in time.
MpiEndpoint broadcast_from_rank_0(const MpiEndpoint& endpoint, std::chrono::milliseconds timeout);

}  // namespace mpi

}  // namespace lockstep::detail
