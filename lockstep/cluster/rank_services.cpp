// A store server inside the launcher, with a random secret, and TLS where LOCKSTEP_ENCRYPT is set; and a scheduler
// server on a thread of the launcher, whose loop shares the losses that it reports.
#include <lockstep/base/crypto.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/base/threads.h>
#include <lockstep/cluster/rank_services.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/store/server.h>
#include <lockstep/world/host_addresses.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::cluster {

LockstepStoreHost::LockstepStoreHost(const std::string& host, std::vector<std::string> addresses)
    : address_{"", random_token()} {
  try {
    store::StoreServerOptions options;
    options.addresses = std::move(addresses);
    options.secret = address_.secret;
    options.tls = net::find_peer_tls(current_environment());
    server_ = std::make_unique<store::Server>(std::move(options));
  } catch (const std::exception& error) {
    fail(ErrorKind::io, "launch", "cannot host the rendezvous store of the ranks: {}", error.what());
  }
  address_.place = host_and_port(host, server_->port());
}

LockstepStoreHost::~LockstepStoreHost() = default;

std::uint16_t LockstepStoreHost::port() const { return server_->port(); }

namespace {

/// The time limit for a replacement to register; its launcher starts it at once. When none registers, the state in
/// memory is not enough to continue, and all ranks end with an error.
constexpr auto kReplacement = std::chrono::minutes(2);

std::chrono::milliseconds seconds_of(const char* variable, std::chrono::milliseconds otherwise) {
  const auto text = find(current_environment(), variable);
  const auto value = text ? parse_number(*text) : std::nullopt;
  if (!text) return otherwise;
  if (!value || *value < 0.1 || *value > 86400) {
    fail(ErrorKind::environment, "launch", "{}=\"{}\" must be a number of seconds, from 0.1 to 86400", variable,
         cut_text(*text));
  }
  return std::chrono::milliseconds(std::llround(*value * 1000));
}

}  // namespace

class JobService::State {
 public:
  State(const std::string& host, int ranks, std::shared_ptr<SharedLosses> losses) : losses_(std::move(losses)) {
    address_ = {host, 0, random_token(), false};
    options_.host = host;
    options_.workers = ranks;
    options_.recovery = true;
    options_.programs_follow = true;
    options_.limits.absence = kReplacement;
    options_.limits.heartbeat_limit = seconds_of("LOCKSTEP_NODE_TIMEOUT_S", options_.limits.heartbeat_limit);
    options_.limits.hang = seconds_of("LOCKSTEP_HANG_TIMEOUT_S", options_.limits.hang);
    options_.secret = address_.secret;
    encrypt_where_asked(host);
    options_.on_lost = [this](int rank, std::int64_t process) {
      losses_->change([&](RankLosses& now) { now.processes.emplace(rank, process); });
    };
    options_.on_back = [this](int rank, std::int64_t process) {
      losses_->change([&](RankLosses& now) { now.processes.erase({rank, process}); });
    };
    options_.on_lost_ranks = [this](const std::vector<int>& lost) {
      losses_->change([&](RankLosses& now) { now.ranks = lost; });
    };
    options_.on_ended = [this](const membership::Ending& ending) {
      if (!ending.ok) return;
      losses_->change([&](RankLosses& now) {
        ++now.completed;
        now.processes.clear();
      });
    };
    server_.emplace(options_);
    address_.port = server_->port();
    const SignalsBlocked for_the_thread;
    thread_ = std::thread([this] { serve(); });
  }

  ~State() {
    server_->stop();
    thread_.join();
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const ServiceAddress& address() const { return address_; }

 private:
  // The rule of the stores: a connection within this host is not encrypted.
  void encrypt_where_asked(const std::string& host) {
    const auto addresses = resolve(host);
    if (!addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_loopback_address)) return;
    const auto tls = net::find_peer_tls(current_environment());
    if (tls) options_.tls = tls->server;
    address_.encrypted = tls != nullptr;
  }

  void serve() noexcept {
    try {
      server_->run();
    } catch (const std::exception& error) {
      log_error("the launcher's job service ended; lost ranks are not replaced any more: {}", error.what());
    }
  }

  const std::shared_ptr<SharedLosses> losses_;
  ServiceAddress address_;
  membership::ServerOptions options_;
  std::optional<membership::Server> server_;
  std::thread thread_;
};

JobService::JobService(const std::string& host, int ranks, std::shared_ptr<SharedLosses> losses)
    : state_(std::make_unique<State>(host, ranks, std::move(losses))) {}

JobService::~JobService() = default;

const ServiceAddress& JobService::address() const { return state_->address(); }

}  // namespace lockstep::cluster
