// The rendezvous store: the key-value store through which ranks find each other, in a file or on a TCP port.
#pragma once

#include <lockstep/comm/meet/stores.h>
#include <lockstep/membership/member_session.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace lockstep::detail {

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

}  // namespace lockstep::detail
