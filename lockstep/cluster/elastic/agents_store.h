// The store of a job's agents that one of them hosts, with Lockstep's own protocol (store/): its address, and the
// choice of the agent that opens it.
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster::elastic {

/// Time limits of a store.
struct StoreLimits {
  std::chrono::milliseconds connect = std::chrono::seconds(60);  ///< until the store is reachable
  std::chrono::milliseconds call = std::chrono::seconds(10);     ///< for one call
  std::chrono::milliseconds lease = std::chrono::seconds(5);     ///< until a silent holder may be replaced
  /// The time until the user gets a message that the store does not answer: within a heartbeat's limit, for everything
  /// that waits for it.
  std::chrono::milliseconds notice() const { return lease * 4 / 5; }
};

/// A store that this process has opened.
struct HostedStore {
  KeyValueStorePtr store;
  std::uint16_t port = 0;
  bool is_new = true;  ///< false: it has moved from here to another process, which holds it
};

/// The addresses of this host at which other hosts reach it as `host`; empty, for all, where `host` is no address of
/// this host (behind network address translation). A loopback name is for agents on this host alone.
std::vector<std::string> addresses_of(const std::string& host);

/// Opens a store on `port` (0: one the kernel chooses) of addresses_of(host). Before that, waits a second for a call of
/// an older store that has moved from there: this process then joins that store, and redirects clients to it. `secret`:
/// agents must prove that they have it; empty: no proof. Error(io) when the port cannot be had.
HostedStore host_agents_store(const std::string& host, std::uint16_t port, const std::string& secret,
                              const StoreLimits& limits);

/// Joins the store that another process has opened, and waits for it to appear; reports the wait on stderr. Other
/// agents reach this process's copy at `own_host()`. Error(timeout) when the store cannot be reached in time,
/// Error(environment) when only one side has a secret, or the secrets differ.
KeyValueStorePtr join_agents_store(const std::string& host, std::uint16_t port,
                                   const std::function<std::string()>& own_host, const std::string& secret,
                                   const StoreLimits& limits);

/// --rdzv_endpoint of the c10d backend.
struct C10dEndpoint {
  std::string host;
  std::uint16_t port = 0;
  std::optional<bool> is_host{};  ///< --rdzv_conf is_host
  bool allow_insecure = false;    ///< other hosts may reach the store without a secret or certificates
};

struct OpenedRendezvous {
  KeyValueStorePtr store;
  bool held_here = false;
};

/// Opens the store here where is_host is true (a failure is then an Error(io)), or where is_host is not set and the
/// endpoint is an address of this host whose port is free. Joins the store otherwise.
///
/// `own_host`, called once the endpoint is reachable: the address at which other hosts reach this host.
/// Error(environment) where other hosts can reach the store without a secret or certificates, and `allow_insecure` is
/// not set.
OpenedRendezvous open_c10d(const C10dEndpoint& endpoint, const std::function<std::string()>& own_host,
                           const StoreLimits& limits);

/// The address at which other nodes reach this one: that of the interface that the environment names, else that from
/// which this host reaches the endpoint.
std::string address_for_others(const std::string& endpoint_host, std::uint16_t endpoint_port);

/// "name", or "name (10.0.0.2)" with an address that is not a loopback one.
std::string name_of_host(const std::string& address);

}  // namespace lockstep::cluster::elastic
