// The rendezvous of agents: opening or joining the store of a job, and this host's address and name for other nodes.
#pragma once

#include <lockstep/cluster/elastic/agents_store.h>

#include <optional>
#include <string>

namespace lockstep::cluster::elastic {

/// --rdzv_endpoint of the c10d backend.
struct C10dEndpoint {
  std::string host;
  std::uint16_t port = 0;
  std::optional<bool> is_host;  ///< --rdzv_conf is_host
};

struct OpenedRendezvous {
  KeyValueStorePtr store;
  bool held_here = false;
};

/// Opens the store here where is_host says so (then failing to is an Error(io)), or where it says nothing and the
/// endpoint is an address of this host whose port is free; joins it otherwise.
OpenedRendezvous open_c10d(const C10dEndpoint& endpoint, const StoreLimits& limits);

/// The address at which other nodes reach this one: of the interface that the environment names, else that from which
/// this host reaches the endpoint.
std::string address_for_others(const std::string& endpoint_host, std::uint16_t endpoint_port);

/// "name", or "name (10.0.0.2)" with an address that is not a loopback one.
std::string name_of_host(const std::string& address);

}  // namespace lockstep::cluster::elastic
