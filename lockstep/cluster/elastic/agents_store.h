// The store of a job's agents that one of them hosts, with Lockstep's own protocol (store/).
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::cluster::elastic {

/// Time limits of a store.
struct StoreLimits {
  std::chrono::milliseconds connect = std::chrono::seconds(60);  ///< until the store is reachable
  std::chrono::milliseconds call = std::chrono::seconds(10);     ///< for one call
};

/// A store that this process hosts.
struct HostedStore {
  KeyValueStorePtr store;
  std::uint16_t port = 0;
};

/// The addresses of this host at which others reach it as `host`; empty, for all, where `host` is no address of it
/// (behind network address translation). A loopback name is for agents on this host alone.
std::vector<std::string> addresses_of(const std::string& host);

/// Opens a store on `port` (0: one the kernel chooses) of addresses_of(host). `secret`: what agents must prove to know;
/// empty: nothing. Error(io) when the port cannot be had.
HostedStore host_agents_store(const std::string& host, std::uint16_t port, const std::string& secret,
                              const StoreLimits& limits);

/// Joins the store of another process, and waits for it to appear; says so on stderr while it does. Error(timeout) when
/// it cannot be reached in time, Error(environment) when one side has no or another secret.
KeyValueStorePtr join_agents_store(const std::string& host, std::uint16_t port, const std::string& secret,
                                   const StoreLimits& limits);

}  // namespace lockstep::cluster::elastic
