// The rendezvous store: the key-value store through which ranks find each other.
#pragma once

#include <lockstep/comm/meet/stores.h>
#include <lockstep/membership/member_session.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
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

}  // namespace lockstep::detail
