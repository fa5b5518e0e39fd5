// The store of a job as a c10d TCPStore, which one of the agents hosts.
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>

#include <chrono>
#include <cstdint>
#include <string>

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

/// Opens a store on `port` (0: one the kernel chooses) of all of this machine's addresses; `host` is what messages call
/// it. Error(io) when the port cannot be had.
HostedStore host_c10d_store(const std::string& host, std::uint16_t port, const StoreLimits& limits);

/// Joins the store of another process, and waits for it to appear; says so on stderr while it does. Error(timeout) when
/// it cannot be reached in time.
KeyValueStorePtr join_c10d_store(const std::string& host, std::uint16_t port, const StoreLimits& limits);

}  // namespace lockstep::cluster::elastic
