#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/elastic/agents_store.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/net/peer_tls.h>
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

using store::MessageReader;
using store::MessageWriter;
using store::Operation;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

std::string name_of(const std::string& host, std::uint16_t port) {
  if (host.find(':') != std::string::npos) return fmt::format("the store at [{}]:{}", host, port);
  return fmt::format("the store at {}:{}", host, port);
}

class AgentsStore final : public KeyValueStore {
 public:
  AgentsStore(std::unique_ptr<store::Client> client, std::string name, milliseconds limit,
              std::unique_ptr<store::Server> server)
      : server_(std::move(server)), client_(std::move(client)), name_(std::move(name)), limit_(limit) {}

  std::optional<std::string> get(const std::string& key) override { return get_all({key}).front(); }

  std::vector<std::optional<std::string>> get_all(const std::vector<std::string>& keys) override {
    const auto result = ask(Operation::look_up, MessageWriter().keys(keys));
    MessageReader reader(result);
    std::vector<std::optional<std::string>> values;
    values.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      values.push_back(reader.number() != 0 ? std::optional(std::string(reader.text())) : std::nullopt);
    }
    return values;
  }

  void set(const std::string& key, const std::string& value) override {
    ask(Operation::set, MessageWriter().text(key).text(value));
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    const auto sum = ask(Operation::add, MessageWriter().text(key).number(static_cast<std::uint64_t>(delta)));
    return static_cast<std::int64_t>(MessageReader(sum).number());
  }

  // To the store no value and an empty one are the same, and it answers with what the key then holds.
  bool replace(const std::string& key, const std::optional<std::string>& expected, const std::string& value) override {
    const auto fields = MessageWriter().text(key).text(expected.value_or("")).text(value);
    return MessageReader(ask(Operation::compare_set, fields)).text() == value;
  }

  std::string describe() const override { return name_; }

 private:
  std::string ask(Operation operation, const MessageWriter& fields) {
    try {
      return client_->ask(operation, fields, Clock::now() + limit_);
    } catch (const store::Overdue&) {
      fail(ErrorKind::timeout, "rendezvous",
           "{} has not answered for {:.1f} s: the host of the launcher that holds it, or the network to it, has gone",
           name_, seconds(limit_));
    } catch (const store::Unreachable& error) {
      fail(ErrorKind::peer_lost, "rendezvous", "{} is lost: the launcher that holds it has gone ({})", name_,
           error.what());
    } catch (const std::exception& error) {
      fail(ErrorKind::io, "rendezvous", "{}: {}", name_, error.what());
    }
  }

  std::unique_ptr<store::Server> server_;  ///< where this process hosts it
  std::unique_ptr<store::Client> client_;
  std::string name_;
  milliseconds limit_;
};

[[noreturn]] void fail_to_open(const std::string& host, std::uint16_t port, const std::string& why) {
  fail(ErrorKind::io, "rendezvous",
       "cannot open port {} of this host for {}: {}. If another program uses the port, choose another one", port,
       name_of(host, port), why);
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

HostedStore host_agents_store(const std::string& host, std::uint16_t port, const std::string& secret,
                              const StoreLimits& limits) {
  const store::Credentials credentials{secret, net::find_peer_tls(current_environment())};
  try {
    store::ServerOptions options;
    options.addresses = addresses_of(host);
    options.port = port;
    options.secret = secret;
    options.tls = credentials.tls;
    const auto here = options.addresses.empty() ? "127.0.0.1" : options.addresses.front();
    auto server = std::make_unique<store::Server>(std::move(options));
    const auto chosen = server->port();
    auto client = std::make_unique<store::Client>(here, chosen, credentials, Clock::now() + limits.connect);
    return {std::make_shared<AgentsStore>(std::move(client), name_of(host, chosen), limits.call, std::move(server)),
            chosen};
  } catch (const std::exception& error) {
    fail_to_open(host, port, error.what());
  }
}

KeyValueStorePtr join_agents_store(const std::string& host, std::uint16_t port, const std::string& secret,
                                   const StoreLimits& limits) {
  const auto name = name_of(host, port);
  const store::Credentials credentials{secret, net::find_peer_tls(current_environment())};
  const auto deadline = Clock::now() + limits.connect;
  const auto tell = [&](std::chrono::seconds waited, const std::string& reason) {
    log_warning("lockstep run: waiting for {}: {} s of at most {:.0f} s ({})", name, waited.count(),
                seconds(limits.connect), reason);
  };
  for (;;) {
    const auto left = std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(1));
    if (const auto why = await_listener(host, port, left, tell)) fail_to_reach(name, limits.connect, *why);
    try {
      auto client = std::make_unique<store::Client>(host, port, credentials, deadline);
      return std::make_shared<AgentsStore>(std::move(client), name, limits.call, nullptr);
    } catch (const Error& error) {
      throw Error(error.kind(), "rendezvous", fmt::format("{}: {}", name, error.message()));
    } catch (const std::exception& error) {
      // It may be that of an earlier job, which has just ended.
      if (Clock::now() >= deadline) {
        const auto why = fmt::format("{} (if another program listens there, choose another port)", error.what());
        fail_to_reach(name, limits.connect, why);
      }
      std::this_thread::sleep_for(milliseconds(100));
    }
  }
}

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
