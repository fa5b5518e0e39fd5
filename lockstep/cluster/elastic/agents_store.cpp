// The rendezvous c10d: a launcher on the endpoint's host opens the store, and the other launchers join it with copies.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/elastic/agents_store.h>
#include <lockstep/cluster/elastic/surviving_store.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/net/certificates/peer_tls.h>
#include <lockstep/store/client.h>
#include <lockstep/store/server.h>
#include <lockstep/world/await_listener.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using store::Operation;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long a newly opened store listens for a store that has moved from its address, and which calls several times
/// meanwhile.
constexpr milliseconds kListen(1000);
constexpr milliseconds kLook(10);
constexpr milliseconds kConnect(500);

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

[[noreturn]] void fail_to_open(const std::string& host, std::uint16_t port, const std::string& why) {
  fail(ErrorKind::io, "rendezvous",
       "cannot open port {} of this host for {}: {}. If another program uses the port, choose another one", port,
       name_of_store({host, port}), why);
}

[[noreturn]] void fail_to_reach(const std::string& name, milliseconds limit, const std::string& why) {
  fail(ErrorKind::timeout, "rendezvous",
       "cannot reach {} within {:.1f} s: {}. The launcher on the host that --rdzv_endpoint (or --master_addr) names "
       "opens it: start it there, and check the address and that this host can reach it",
       name, seconds(limit), why);
}

std::string own_name() { return host_name().value_or("unknown"); }

bool is_this_host(const std::string& host) {
  return host == "localhost" || host == own_name() || any_is_own(resolve(host), own_addresses());
}

}  // namespace

std::vector<std::string> addresses_of(const std::string& host) {
  return detail::addresses_to_listen_on({host, resolve(host), is_always_this_host(host)}, own_addresses());
}

namespace {

store::Credentials credentials_of(const std::string& secret) {
  return {secret, net::find_peer_tls(current_environment())};
}

std::unique_ptr<store::Server> serve(const std::shared_ptr<store::Replica>& replica, const store::Address& at,
                                     const store::Credentials& credentials) {
  store::StoreServerOptions options;
  options.addresses = addresses_of(at.host);
  options.port = at.port;
  options.secret = credentials.secret;
  options.tls = credentials.tls;
  options.replica = replica;
  return std::make_unique<store::Server>(std::move(options));
}

std::unique_ptr<store::ReplicaKeeper> keep(const std::shared_ptr<store::Replica>& replica, const store::Address& own,
                                           const store::Address& endpoint, const store::Credentials& credentials) {
  const auto tell = [](const std::string& news) { log_warning("lockstep run: {}", news); };
  return std::make_unique<store::ReplicaKeeper>(replica, store::KeeperOptions{own, endpoint, credentials, tell});
}

/// Whether a store that has moved from here to another process calls.
bool has_moved_elsewhere(const store::Replica& replica) {
  for (const auto until = Clock::now() + kListen; Clock::now() < until; std::this_thread::sleep_for(kLook)) {
    if (!replica.standing(Clock::now()).leader.empty()) return true;
  }
  return false;
}

void await_copy(const store::Replica& replica, const std::string& name, const StoreLimits& limits,
                Clock::time_point deadline, const std::function<bool()>& give_up = {}) {
  while (!replica.standing(Clock::now()).joined) {
    if (give_up && give_up()) return;
    if (Clock::now() >= deadline) fail_to_reach(name, limits.connect, "it has moved, and its holder does not answer");
    std::this_thread::sleep_for(kLook);
  }
}

bool has_ended(const store::Address& holder) {
  return !holder.empty() && connect_once(holder.host, holder.port, kConnect).refused;
}

/// Whether the process that listens there holds the store, or can name the holder. Errors: those of a Client.
bool knows_holder(const store::Address& endpoint, const store::Credentials& credentials, Clock::time_point deadline) {
  const auto answer =
      store::Client(endpoint.host, endpoint.port, credentials, deadline).ask(Operation::stand, {}, deadline);
  store::MessageReader reader(answer);
  const auto standing = store::read_standing(reader);
  return standing.leads || !standing.leader.empty();
}

}  // namespace

HostedStore host_agents_store(const std::string& host, std::uint16_t port, const std::string& secret,
                              const StoreLimits& limits) {
  const auto deadline = Clock::now() + limits.connect;
  const auto credentials = credentials_of(secret);
  StoreCopy copy{std::make_shared<store::Replica>(limits.lease), nullptr, nullptr};
  store::Address own{host, port};
  try {
    copy.server = serve(copy.replica, own, credentials);
  } catch (const std::exception& error) {
    fail_to_open(host, port, error.what());
  }
  own.port = copy.server->port();
  const auto& replica = *copy.replica;
  const auto holder_has_ended = [&] { return has_ended(replica.standing(Clock::now()).leader); };
  bool has_moved = has_moved_elsewhere(replica);
  for (; has_moved; has_moved = has_moved_elsewhere(replica)) {
    copy.keeper = keep(copy.replica, own, own, credentials);
    await_copy(replica, name_of_store(own), limits, deadline, holder_has_ended);
    if (replica.standing(Clock::now()).joined) break;
    copy.keeper.reset();
    copy.replica->forget_leader();  // the leader that announced itself has ended since; another process with a copy
                                    // will announce itself
  }
  if (!has_moved) {
    copy.replica->found(own);
    copy.keeper = keep(copy.replica, own, own, credentials);
  }
  return {std::make_shared<SurvivingStore>(std::move(copy), own, credentials, limits.call, limits.notice()), own.port,
          !has_moved};
}

KeyValueStorePtr join_agents_store(const std::string& host, std::uint16_t port,
                                   const std::function<std::string()>& own_host, const std::string& secret,
                                   const StoreLimits& limits) {
  const store::Address endpoint{host, port};
  const auto name = name_of_store(endpoint);
  const auto credentials = credentials_of(secret);
  const auto deadline = Clock::now() + limits.connect;
  const auto tell = [&](std::chrono::seconds waited, const std::string& reason) {
    log_warning("lockstep run: waiting for {}: {} s of at most {:.0f} s ({})", name, waited.count(),
                seconds(limits.connect), reason);
  };
  for (std::string why;; std::this_thread::sleep_for(milliseconds(100))) {
    const auto left = std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(1));
    if (const auto reason = await_listener(host, port, left, tell)) fail_to_reach(name, limits.connect, *reason);
    try {
      if (knows_holder(endpoint, credentials, deadline)) break;
      why = "it is being opened";
    } catch (const Error& error) {
      throw Error(error.kind(), "rendezvous", fmt::format("{}: {}", name, error.message()));
    } catch (const std::exception& error) {  // may be the store of an earlier job, which has just ended
      why = fmt::format("{} (if another program listens there, choose another port)", error.what());
    }
    if (Clock::now() >= deadline) fail_to_reach(name, limits.connect, why);
  }
  StoreCopy copy{std::make_shared<store::Replica>(limits.lease), nullptr, nullptr};
  store::Address own{own_host(), 0};
  try {
    copy.server = serve(copy.replica, own, credentials);
  } catch (const std::exception& error) {
    fail_to_open(own.host, 0, error.what());
  }
  own.port = copy.server->port();
  copy.keeper = keep(copy.replica, own, endpoint, credentials);
  await_copy(*copy.replica, name, limits, deadline);
  return std::make_shared<SurvivingStore>(std::move(copy), own, credentials, limits.call, limits.notice());
}

namespace {

bool allows_insecure(const Environment& environment) {
  constexpr auto kVariable = "LOCKSTEP_ALLOW_INSECURE";
  const auto text = find(environment, kVariable).value_or("");
  if (text.empty()) return false;
  const auto value = parse_bool(text);
  if (!value) fail(ErrorKind::environment, "rendezvous", "{}='{}' is neither 1 nor 0", kVariable, cut_text(text));
  return *value;
}

/// A client that can write to the store can end the job, and one that can read it gets the secrets of its ranks.
void require_loopback(const std::string& host) {
  const auto addresses = addresses_of(host);
  if (!addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_loopback_address)) return;
  fail(ErrorKind::environment, "rendezvous",
       "the launchers of the nodes meet at {}, which other machines can reach, and their store is not protected: any "
       "process there could end the job or join it. Set LOCKSTEP_STORE_SECRET to the same text on all nodes, or "
       "LOCKSTEP_ENCRYPT=1 with certificates ('lockstep certs init DIR'), or, in a network that you trust, "
       "LOCKSTEP_ALLOW_INSECURE=1 (--rdzv_conf allow_insecure=1)",
       host);
}

}  // namespace

OpenedRendezvous open_c10d(const C10dEndpoint& endpoint, const std::function<std::string()>& own_host,
                           const StoreLimits& limits) {
  const auto secret = find(current_environment(), "LOCKSTEP_STORE_SECRET").value_or("");
  const bool may_be_open = endpoint.allow_insecure || allows_insecure(current_environment());
  const bool for_loopback_alone = !may_be_open && secret.empty() && !net::find_peer_tls(current_environment());
  if (for_loopback_alone) require_loopback(endpoint.host);
  const auto own_checked_host = [&] {
    auto host = own_host();
    if (for_loopback_alone) require_loopback(host);
    return host;
  };
  const auto host = [&] {
    const auto hosted = host_agents_store(endpoint.host, endpoint.port, secret, limits);
    return OpenedRendezvous{hosted.store, hosted.is_new};
  };
  const auto join = [&] {
    return OpenedRendezvous{join_agents_store(endpoint.host, endpoint.port, own_checked_host, secret, limits), false};
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
  // Debian's hosts have the name 127.0.1.1, at which no other host reaches them.
  if (address.empty() || (is_loopback_address(address) && !meant)) return lockstep::detail::outward_address();
  return address;
}

std::string name_of_host(const std::string& address) {
  return is_loopback_address(address) ? own_name() : fmt::format("{} ({})", own_name(), address);
}

}  // namespace lockstep::cluster::elastic
