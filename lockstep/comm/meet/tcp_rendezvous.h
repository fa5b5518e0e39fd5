// The rendezvous in a store that listens on a TCP port: rank 0 hosts it, or a launcher does.
#pragma once

#include <lockstep/comm/meet/open_store.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace lockstep::detail {

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
