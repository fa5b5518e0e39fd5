#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/elastic/rendezvous.h>
#include <lockstep/comm/bind_address.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>

namespace lockstep::cluster::elastic {
namespace {

std::string own_name() { return host_name().value_or("unknown"); }

bool is_this_host(const std::string& host) {
  return host == "localhost" || host == own_name() || any_is_own(resolve(host), own_addresses());
}

}  // namespace

OpenedRendezvous open_c10d(const C10dEndpoint& endpoint, const StoreLimits& limits) {
  const auto secret = find(current_environment(), "LOCKSTEP_STORE_SECRET").value_or("");
  const auto host = [&] {
    return OpenedRendezvous{host_agents_store(endpoint.host, endpoint.port, secret, limits).store, true};
  };
  const auto join = [&] {
    return OpenedRendezvous{join_agents_store(endpoint.host, endpoint.port, secret, limits), false};
  };
  if (endpoint.is_host) return *endpoint.is_host ? host() : join();
  if (!is_this_host(endpoint.host)) return join();
  try {
    return host();
  } catch (const Error&) {
    return join();  // another agent on this host was faster
  }
}

std::string address_for_others(const std::string& endpoint_host, std::uint16_t endpoint_port) {
  if (auto named = lockstep::detail::named_interface_address(current_environment())) return *named;
  auto address = lockstep::detail::address_towards(endpoint_host, endpoint_port);
  const bool meant = is_always_this_host(endpoint_host);
  // Debian's hosts call themselves 127.0.1.1, where nobody else finds them.
  if (address.empty() || (is_loopback_address(address) && !meant)) return lockstep::detail::outward_address();
  return address;
}

std::string name_of_host(const std::string& address) {
  return is_loopback_address(address) ? own_name() : fmt::format("{} ({})", own_name(), address);
}

}  // namespace lockstep::cluster::elastic
