// The lease at etcd under which a launcher runs the service of its job, and the job's state there.
#include <lockstep/base/crypto.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/elastic/etcd_rendezvous.h>
#include <lockstep/cluster/elastic/node_server.h>
#include <lockstep/cluster/etcd/client.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/store/sockets.h>

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr const char* kTxn = "/v3/kv/txn";
constexpr const char* kGrant = "/v3/lease/grant";
constexpr const char* kRevoke = "/v3/lease/revoke";
constexpr const char* kKeepAlive = "/v3/lease/keepalive";

constexpr std::int64_t kHighestPort = 65535;
constexpr std::int64_t kLongestLease = std::int64_t{7} * 24 * 3600;
/// The limit for one look at etcd: longer waits are repeated by the caller, which reports them.
constexpr std::chrono::seconds kLook(5);
constexpr std::chrono::seconds kFarewell(2);

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "run", format, std::forward<Args>(args)...);
}

// ---- options

etcd::HttpServer server_of(const std::string& text) {
  if (const auto server = etcd::parse_server(text)) return *server;
  refuse("--rdzv_endpoint: '{}' must be HOST or HOST:PORT, a port from 1 to {}, for each server of etcd", text,
         kHighestPort);
}

std::string setting(const std::map<std::string, std::string>& conf, const std::string& key) {
  const auto found = conf.find(key);
  return found == conf.end() ? "" : found->second;
}

std::optional<etcd::TlsFiles> parse_tls(const std::map<std::string, std::string>& conf) {
  const std::string protocol = conf.contains("protocol") ? setting(conf, "protocol") : "http";
  etcd::TlsFiles files;
  files.authorities = setting(conf, conf.contains("cacert") ? "cacert" : "ca_cert");
  files.certificate = setting(conf, "ssl_cert");
  files.key = setting(conf, "ssl_cert_key");
  if (protocol != "http" && protocol != "https") refuse("--rdzv_conf protocol={}: must be http or https", protocol);
  if (files.certificate.empty() != files.key.empty()) {
    refuse("--rdzv_conf: ssl_cert and ssl_cert_key belong together; there is only {}",
           files.key.empty() ? "ssl_cert" : "ssl_cert_key");
  }
  if (protocol == "https") return files;
  if (!files.authorities.empty() || !files.key.empty()) {
    refuse("--rdzv_conf: certificates are used with protocol=https only, and protocol is http");
  }
  return std::nullopt;
}

std::chrono::seconds parse_lease(const std::string& text) {
  const auto seconds = parse_integer(text);
  if (!seconds || *seconds < 1 || *seconds > kLongestLease) {
    refuse("--rdzv_conf lease={}: must be a number of seconds from 1 to {}", text, kLongestLease);
  }
  return std::chrono::seconds(*seconds);
}

// ---- keys and leases

/// A key of a job: "service" names the launcher that runs its service, "state" is its state.
std::string key_of_job(const EtcdOptions& options, const char* what) {
  return fmt::format("/lockstep/{}/{}", options.job, what);
}

/// Null: there is no such key.
json read_entry(etcd::Client& client, const std::string& key, Clock::time_point deadline) {
  const auto answer = client.call(kTxn, etcd::txn(json::array({etcd::find_in_txn(key)})), deadline);
  if (!answer.refusal.empty()) {
    fail(ErrorKind::io, "etcd", "{} refuses to read {}: {}", client.describe(), key, answer.refusal);
  }
  return etcd::entry_in_txn(answer.body, 0);
}

std::optional<std::string> read_key(etcd::Client& client, const std::string& key, Clock::time_point deadline) {
  return etcd::value_of(read_entry(client, key, deadline));
}

/// A lease of etcd. For use by one thread.
class Lease {
 public:
  Lease(etcd::Client& client, std::chrono::seconds ttl, Clock::time_point deadline) : client_(client) {
    const auto answer = client.call(kGrant, {{"TTL", std::to_string(ttl.count())}}, deadline);
    const auto found = answer.body.find("ID");
    if (!answer.refusal.empty() || found == answer.body.end() || !found->is_string()) {
      fail(ErrorKind::io, "etcd", "{} grants no lease: {}", client.describe(), answer.refusal);
    }
    found->get_to(id_);
  }
  /// One that was granted before.
  static Lease of(etcd::Client& client, std::string id) { return {client, std::move(id)}; }

  const std::string& id() const { return id_; }

  /// False when etcd does not know it any more.
  bool keep(Clock::time_point deadline) {
    return etcd::lease_is_alive(client_.call(kKeepAlive, {{"ID", id_}}, deadline).body);
  }
  void revoke(Clock::time_point deadline) noexcept {
    try {
      client_.call(kRevoke, {{"ID", id_}}, deadline);
    } catch (const Error&) {
      // It expires.
    }
  }

 private:
  Lease(etcd::Client& client, std::string id) : client_(client), id_(std::move(id)) {}

  etcd::Client& client_;
  std::string id_;
};

std::string print_service(const ServiceAt& at) {
  return json{{"host", at.host}, {"port", at.port}, {"secret", at.secret}}.dump();
}

ServiceAt service_in(const std::string& text, const std::string& where) {
  try {
    const auto value = json::parse(text);
    return {value.at("host").get<std::string>(), integer_of<std::uint16_t>(value.at("port")),
            value.at("secret").get<std::string>()};
  } catch (const json::exception& error) {
    fail(ErrorKind::config, "rendezvous",
         "{} holds '{}' where the address of the job's service should be ({}); give this job another --rdzv_id, and "
         "start the same version of lockstep on all nodes",
         where, cut_text(text), error.what());
  }
}

/// One term of a launcher that runs the service: from the creation of the key to the loss of its lease.
class Term {
 public:
  /// `created`: the revision at which the key was created. `ttl`: of its lease, which was granted at `granted`, or
  /// later.
  Term(const EtcdOptions& options, const Lease& lease, std::int64_t created, std::chrono::seconds ttl,
       Clock::time_point granted, std::vector<UniqueFd> sockets, const ServiceAt& at);
  Term(const Term&) = delete;
  Term& operator=(const Term&) = delete;

  bool serves() const { return server_->serves(); }
  int users() const { return server_->users(); }

 private:
  std::optional<std::string> load();
  bool save(const std::string& text) noexcept;
  void keep(const std::stop_token& stop, Clock::time_point kept) noexcept;
  std::string state_lease() {
    const std::lock_guard lock(mutex_);
    return state_lease_;
  }
  void grant_state_lease(Clock::time_point deadline);
  bool put(const std::string& text, Clock::time_point deadline);

  const EtcdOptions options_;
  const std::string service_key_;
  const std::string state_key_;
  const std::int64_t created_;
  const std::chrono::seconds ttl_;
  etcd::Client of_server_;  ///< for the thread of the server
  etcd::Client of_keeper_;
  std::string own_lease_;
  std::int64_t written_ = 0;  ///< the revision of the last write of the state
  std::mutex mutex_;          ///< guards state_lease_
  std::string state_lease_;   ///< of the state, which outlives this term

  std::optional<NodeServer> server_;
  std::jthread keeper_;
};

Term::Term(const EtcdOptions& options, const Lease& lease, std::int64_t created, std::chrono::seconds ttl,
           Clock::time_point granted, std::vector<UniqueFd> sockets, const ServiceAt& at)
    : options_(options),
      service_key_(key_of_job(options, "service")),
      state_key_(key_of_job(options, "state")),
      created_(created),
      ttl_(ttl),
      of_server_(options.address),
      of_keeper_(options.address),
      own_lease_(lease.id()) {
  NodeServerOptions server;
  server.sockets = std::move(sockets);
  server.secret = at.secret;
  if (const auto tls = net::find_peer_tls(current_environment())) server.tls = tls->server;
  server.place = JobPlace{
      options.job, {of_server_.describe(), [this] { return load(); }, [this](const auto& text) { return save(text); }}};
  grant_state_lease(Clock::now() + options.timeout);
  server_.emplace(std::move(server));
  keeper_ = std::jthread([this, granted](const std::stop_token& stop) { keep(stop, granted); });
}

void Term::grant_state_lease(Clock::time_point deadline) {
  const Lease lease(of_server_, options_.lease, deadline);
  const std::lock_guard lock(mutex_);
  state_lease_ = lease.id();
}

std::optional<std::string> Term::load() {
  const auto deadline = Clock::now() + options_.timeout;
  const auto entry = read_entry(of_server_, state_key_, deadline);
  written_ = etcd::revision_of_entry(entry);
  const auto text = etcd::value_of(entry);
  // Under the lease of this term, as that of the last one is not kept any more.
  if (text && !put(*text, deadline)) {
    fail(ErrorKind::peer_lost, "rendezvous", "another launcher runs the service of job '{}' now", options_.job);
  }
  return text;
}

// Whether it is written. An attempt without an answer may have been carried out, or may be later: so the condition
// names the last write too, and a write of this text by an earlier attempt counts.
bool Term::put(const std::string& text, Clock::time_point deadline) {
  for (;;) {
    const auto conditions =
        json::array({etcd::if_created_at(service_key_, created_), etcd::if_written_at(state_key_, written_)});
    const auto write = json::array({etcd::put_in_txn(state_key_, text, state_lease())});
    const auto look = json::array({etcd::find_in_txn(state_key_), etcd::find_in_txn(service_key_)});
    const auto answer = of_server_.call(kTxn, etcd::txn(conditions, write, look), deadline);
    if (answer.refusal.find("lease not found") != std::string::npos) {
      grant_state_lease(deadline);
      continue;
    }
    if (!answer.refusal.empty()) {
      fail(ErrorKind::io, "etcd", "{} refused the state of the job: {}", of_server_.describe(), answer.refusal);
    }
    if (etcd::succeeded(answer.body)) {
      written_ = etcd::revision_of(answer.body);
      return true;
    }
    const auto held = etcd::entry_in_txn(answer.body, 0), owner = etcd::entry_in_txn(answer.body, 1);
    if (owner.is_null() || owner.value("create_revision", "") != std::to_string(created_)) return false;
    written_ = etcd::revision_of_entry(held);
    if (etcd::value_of(held) == text) return true;
  }
}

bool Term::save(const std::string& text) noexcept {
  try {
    if (put(text, Clock::now() + options_.timeout)) return true;
    log_warning("lockstep run: another launcher runs the service of job '{}' now", options_.job);
  } catch (const std::exception& error) {
    log_warning("lockstep run: this launcher does not run the service of job '{}' any more: {}", options_.job,
                error.what());
  }
  return false;
}

// Ends the service when the lease may have expired: its launchers then find that of another one.
void Term::keep(const std::stop_token& stop, Clock::time_point kept) noexcept {
  Lease own = Lease::of(of_keeper_, own_lease_);
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested() && server_->serves()) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, std::chrono::milliseconds(ttl_) / 3, [] { return false; });
    if (stop.stop_requested()) break;
    const auto sent = Clock::now();
    try {
      if (!own.keep(kept + ttl_)) break;
      kept = sent;
      Lease::of(of_keeper_, state_lease()).keep(kept + ttl_);
    } catch (const std::exception&) {
      if (Clock::now() >= kept + ttl_) break;
    }
  }
  const bool is_own = stop.stop_requested() || !server_->serves();
  server_->stop();
  if (is_own) own.revoke(Clock::now() + kFarewell);
}

/// This launcher's part in the rendezvous. `find` is for one thread, `users` for any.
class AtEtcd {
 public:
  AtEtcd(const EtcdOptions& options, std::string address, std::vector<std::string> listen_on, std::chrono::seconds ttl)
      : options_(options),
        key_(key_of_job(options, "service")),
        address_(std::move(address)),
        listen_on_(std::move(listen_on)),
        ttl_(ttl),
        client_(options.address) {}

  ServiceAt find();
  int users() {
    const std::lock_guard lock(mutex_);
    return term_ ? term_->users() : 0;
  }

 private:
  std::optional<ServiceAt> look(Clock::time_point deadline);
  void campaign(Clock::time_point deadline);

  const EtcdOptions options_;
  const std::string key_;
  const std::string address_;
  const std::vector<std::string> listen_on_;
  const std::chrono::seconds ttl_;
  etcd::Client client_;
  std::mutex mutex_;  ///< guards term_
  std::unique_ptr<Term> term_;
};

ServiceAt AtEtcd::find() {
  {
    const std::lock_guard lock(mutex_);
    if (term_ && !term_->serves()) term_.reset();
  }
  const auto deadline = Clock::now() + std::min<Clock::duration>(options_.timeout, kLook);
  const auto with_tls = [](ServiceAt at) {
    if (const auto tls = net::find_peer_tls(current_environment())) at.tls = tls->client;
    return at;
  };
  if (const auto at = look(deadline)) return with_tls(*at);
  campaign(deadline);
  if (const auto at = look(deadline)) return with_tls(*at);
  fail(ErrorKind::peer_lost, "rendezvous", "no launcher of job '{}' runs its service now", options_.job);
}

std::optional<ServiceAt> AtEtcd::look(Clock::time_point deadline) {
  const auto text = read_key(client_, key_, deadline);
  return text ? std::optional(service_in(*text, client_.describe() + " under " + key_)) : std::nullopt;
}

void AtEtcd::campaign(Clock::time_point deadline) {
  auto listening = store::listen_at(listen_on_, 0);
  const ServiceAt at{address_, listening.port, random_token()};
  const auto granted = Clock::now();
  Lease lease(client_, ttl_, deadline);
  const auto write = json::array({etcd::put_in_txn(key_, print_service(at), lease.id())});
  const auto answer = client_.call(kTxn, etcd::txn(etcd::if_created_at(key_, 0), write, json::array()), deadline);
  if (!answer.refusal.empty() || !etcd::succeeded(answer.body)) {
    // After an attempt without an answer the key may be this one's: it goes with the lease, and the next try finds
    // none.
    return lease.revoke(deadline);
  }
  const auto created = etcd::revision_of(answer.body);
  try {
    auto term = std::make_unique<Term>(options_, lease, created, ttl_, granted, std::move(listening.sockets), at);
    const std::lock_guard lock(mutex_);
    term_ = std::move(term);
  } catch (...) {
    lease.revoke(Clock::now() + kFarewell);
    throw;
  }
}

}  // namespace

EtcdOptions etcd_options(const std::string& endpoint, const std::string& job,
                         const std::map<std::string, std::string>& conf) {
  if (endpoint.empty()) {
    refuse("--rdzv_backend etcd needs --rdzv_endpoint HOST[:PORT], where etcd is; several servers with commas");
  }
  if (job.empty() || job == "none") {
    refuse(
        "--rdzv_backend etcd needs --rdzv_id, a name for this start of the job, the same on all nodes: other jobs may "
        "use the same etcd");
  }
  EtcdOptions options;
  options.job = job;
  options.address.tls = parse_tls(conf);
  std::istringstream in(endpoint);
  for (std::string server; std::getline(in, server, ',');) options.address.servers.push_back(server_of(server));
  if (conf.contains("lease")) options.lease = parse_lease(setting(conf, "lease"));
  return options;
}

etcd::HttpServer find_server(const EtcdOptions& options) {
  etcd::Client client(options.address);
  read_key(client, key_of_job(options, "service"), Clock::now() + options.timeout);
  return client.server();
}

NodeRendezvous open_etcd(const EtcdOptions& options, const std::string& address,
                         const std::vector<std::string>& listen_on, std::chrono::seconds lease) {
  const auto here = std::make_shared<AtEtcd>(options, address, listen_on, lease);
  const etcd::Client client(options.address);
  return {.name = fmt::format("the service of job '{}' in the {}", options.job, client.describe()),
          .find = [here] { return here->find(); },
          .moves = true,
          .users = [here] { return here->users(); }};
}

}  // namespace lockstep::cluster::elastic
