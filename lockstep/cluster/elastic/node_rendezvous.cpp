// The rendezvous of launchers without etcd: the launcher on the endpoint's host runs the service, for the life of the
// job.
#include <lockstep/base/crypto.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/elastic/node_rendezvous.h>
#include <lockstep/cluster/elastic/node_server.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/store/sockets.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

std::string own_name() { return host_name().value_or("unknown"); }

bool is_this_host(const std::string& host) {
  return host == "localhost" || host == own_name() || any_is_own(resolve(host), own_addresses());
}

bool allows_insecure(const Environment& environment) {
  constexpr auto kVariable = "LOCKSTEP_ALLOW_INSECURE";
  const auto text = find(environment, kVariable).value_or("");
  if (text.empty()) return false;
  const auto value = parse_bool(text);
  if (!value) fail(ErrorKind::environment, "rendezvous", "{}='{}' is neither 1 nor 0", kVariable, cut_text(text));
  return *value;
}

/// The secret of a job's launchers, from the environment. Error(environment) where other machines can reach `host`, at
/// which they meet, and there is neither a secret nor certificates, unless `allow_insecure`.
std::string secret_of_launchers(const std::string& host, bool allow_insecure) {
  const auto secret = find(current_environment(), "LOCKSTEP_STORE_SECRET").value_or("");
  if (allow_insecure || allows_insecure(current_environment())) return secret;
  if (!secret.empty() || net::find_peer_tls(current_environment())) return secret;
  const auto addresses = addresses_of(host);
  if (!addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_loopback_address)) return secret;
  // Who can send messages there can end the job, and gets the secrets of its ranks.
  fail(ErrorKind::environment, "rendezvous",
       "the launchers of the nodes meet at {}, which other machines can reach, and their service is not protected: any "
       "process there could end the job or join it. Set LOCKSTEP_STORE_SECRET to the same text on all nodes, or "
       "LOCKSTEP_ENCRYPT=1 with certificates ('lockstep certs init DIR'), or, in a network that you trust, "
       "LOCKSTEP_ALLOW_INSECURE=1 (--rdzv_conf allow_insecure=1)",
       host);
}

std::shared_ptr<NodeServer> serve(std::vector<UniqueFd> sockets, const std::string& secret,
                                  const std::shared_ptr<const net::PeerTls>& tls) {
  NodeServerOptions options;
  options.sockets = std::move(sockets);
  options.secret = secret;
  if (tls) options.tls = tls->server;
  return std::make_shared<NodeServer>(std::move(options));
}

NodeRendezvous held_here(NodeRendezvous meeting, std::shared_ptr<NodeServer> server) {
  meeting.held_here = true;
  meeting.users = [server = std::move(server)] { return server->users(); };
  return meeting;
}

}  // namespace

std::vector<std::string> addresses_of(const std::string& host) {
  return detail::addresses_to_listen_on({host, resolve(host), is_always_this_host(host)}, own_addresses());
}

NodeRendezvous open_on_one_node() {
  const std::string loopback = "127.0.0.1";
  auto listening = store::listen_at({loopback}, 0);
  const ServiceAt at{loopback, listening.port, random_token()};
  NodeRendezvous meeting{.name = "this launcher's service", .find = [at] { return at; }, .users = {}};
  return held_here(std::move(meeting), serve(std::move(listening.sockets), at.secret, nullptr));
}

NodeRendezvous open_c10d(const C10dEndpoint& endpoint) {
  const auto tls = net::find_peer_tls(current_environment());
  NodeRendezvous meeting{.name = fmt::format("the job's service at {}", host_and_port(endpoint.host, endpoint.port)),
                         .find = {},
                         .users = [] { return 0; }};
  ServiceAt at{endpoint.host, endpoint.port, secret_of_launchers(endpoint.host, endpoint.allow_insecure)};
  if (tls) at.tls = tls->client;
  meeting.find = [at] { return at; };
  const bool may_be_here = endpoint.is_host.value_or(is_this_host(endpoint.host));
  if (!may_be_here) return meeting;
  try {
    auto listening = store::listen_at(addresses_of(endpoint.host), endpoint.port);
    at.port = listening.port;
    meeting.find = [at] { return at; };
    return held_here(std::move(meeting), serve(std::move(listening.sockets), at.secret, tls));
  } catch (const std::exception& error) {
    if (!endpoint.is_host) return meeting;  // another launcher on this host was faster
    fail(ErrorKind::io, "rendezvous",
         "cannot open port {} of this host for {}: {}. If another program uses the port, choose another one",
         endpoint.port, meeting.name, error.what());
  }
}

std::string address_for_others(const std::string& endpoint_host, std::uint16_t endpoint_port) {
  if (auto named = lockstep::detail::named_interface_address(current_environment())) return *named;
  auto address = lockstep::detail::address_towards(endpoint_host, endpoint_port);
  const bool meant = is_always_this_host(endpoint_host);
  // Debian's hosts have the name 127.0.1.1, at which no other host reaches them.
  if (address.empty() || (is_loopback_address(address) && !meant)) return lockstep::detail::outward_address();
  return address;
}

std::string name_of_host(const std::string& address) {
  return is_loopback_address(address) ? own_name() : fmt::format("{} ({})", own_name(), address);
}

}  // namespace lockstep::cluster::elastic
