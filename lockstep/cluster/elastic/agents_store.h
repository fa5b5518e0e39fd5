// The store of a job's agents that one of them hosts, with Lockstep's own protocol (store/): where it is, and who opens
// it.
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
  std::chrono::milliseconds lease = std::chrono::seconds(5);     ///< until a silent holder may be succeeded
  /// Until people are told that it does not answer: within a heartbeat's limit, whatever else waits for that.
  std::chrono::milliseconds notice() const { return lease * 4 / 5; }
};

/// A store that this process has opened.
struct HostedStore {
  KeyValueStorePtr store;
  std::uint16_t port = 0;
  bool is_new = true;  ///< false: it has moved from here to another process, which holds it
};

/// The addresses of this host at which others reach it as `host`; empty, for all, where `host` is no address of it
/// (behind network address translation). A loopback name is for agents on this host alone.
std::vector<std::string> addresses_of(const std::string& host);

/// Opens a store on `port` (0: one the kernel chooses) of addresses_of(host), after a second in which an older one that
/// has moved from there calls: this process then joins that, and shows others the way. `secret`: what agents must prove
/// to know; empty: nothing. Error(io) when the port cannot be had.
HostedStore host_agents_store(const std::string& host, std::uint16_t port, const std::string& secret,
                              const StoreLimits& limits);

/// Joins the store that another process has opened, and waits for it to appear; says so on stderr while it does. The
/// others reach this process's copy at `own_host()`. Error(timeout) when the store cannot be reached in time,
/// Error(environment) when one side has no or another secret.
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

/// Opens the store here where is_host says so (then failing to is an Error(io)), or where it says nothing and the
/// endpoint is an address of this host whose port is free; joins it otherwise.
/// `own_host`, called once the endpoint is there: at which the others reach this host. Error(environment) where other
/// hosts can reach the store, and nothing protects it that is not meant to be open.
OpenedRendezvous open_c10d(const C10dEndpoint& endpoint, const std::function<std::string()>& own_host,
                           const StoreLimits& limits);

/// The address at which other nodes reach this one: of the interface that the environment names, else that from which
/// this host reaches the endpoint.
std::string address_for_others(const std::string& endpoint_host, std::uint16_t endpoint_port);

/// "name", or "name (10.0.0.2)" with an address that is not a loopback one.
std::string name_of_host(const std::string& address);

}  // namespace lockstep::cluster::elastic
