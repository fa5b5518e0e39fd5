// The place where the launchers of a job meet: the service that decides on it, in this launcher or in another one.
#pragma once

#include <lockstep/cluster/elastic/node_link.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster::elastic {

/// The service of a job, as this launcher reaches it.
struct NodeRendezvous {
  std::string name;                 ///< for messages: "the job's service at 10.0.0.1:29400"
  std::function<ServiceAt()> find;  ///< see NodeLinkOptions
  bool moves = false;               ///< see NodeLinkOptions
  bool held_here = false;           ///< this launcher opened it, and the job ends when this launcher leaves
  /// The number of launchers that use the service if it runs in this process, otherwise 0. Keeps the service alive.
  std::function<int()> users;
};

/// The service of a job on one node, which no other process can join.
NodeRendezvous open_on_one_node();

/// --rdzv_endpoint of the backend c10d.
struct C10dEndpoint {
  std::string host;
  std::uint16_t port = 0;
  std::optional<bool> is_host{};  ///< --rdzv_conf is_host
  bool allow_insecure = false;    ///< other hosts may reach the service without a secret or certificates
};

/// Runs the service here where is_host is true (a failure is then an Error(io)), or where is_host is not set and the
/// endpoint is an address of this host whose port is free. Otherwise another launcher runs it.
/// Error(environment) where other hosts can reach it without a secret or certificates, and `allow_insecure` is not set.
NodeRendezvous open_c10d(const C10dEndpoint& endpoint);

/// The addresses of this host at which other hosts reach it as `host`; empty, for all, where `host` is no address of
/// this host (behind network address translation). A loopback name is for launchers on this host alone.
std::vector<std::string> addresses_of(const std::string& host);

/// The address at which other nodes reach this one: that of the interface that the environment names, else that from
/// which this host reaches the endpoint.
std::string address_for_others(const std::string& endpoint_host, std::uint16_t endpoint_port);

/// "name", or "name (10.0.0.2)" with an address that is not a loopback one.
std::string name_of_host(const std::string& address);

}  // namespace lockstep::cluster::elastic
