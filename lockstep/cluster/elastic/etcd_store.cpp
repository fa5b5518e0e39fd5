// Transactions of etcd v3 as a key-value store, under one lease for each job; tickets make repeated additions safe.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/sha256.h>
#include <lockstep/cluster/elastic/etcd_store.h>
#include <lockstep/cluster/etcd/address.h>
#include <lockstep/cluster/etcd/messages.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <random>
#include <sstream>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using namespace etcd;

constexpr const char* kTxn = "/v3/kv/txn";
constexpr const char* kKeepAlive = "/v3/lease/keepalive";

// Derived from the job's name, so that all stores of a job share one lease without communication: the keys of an agent
// that ended stay as long as any other agent runs.
std::string lease_of(const std::string& prefix) {
  Sha256 hash;
  hash.update(prefix);
  constexpr std::size_t kDigits = 15;  // 60 bits; numbers of leases are signed and not 0
  const std::string hex = hash.hex();
  std::int64_t number = 0;
  std::from_chars(hex.data(), hex.data() + kDigits, number, 16);
  return std::to_string(number + 1);
}

std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

constexpr std::int64_t kHighestPort = 65535;
constexpr std::int64_t kLongestLease = std::int64_t{7} * 24 * 3600;

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "run", format, std::forward<Args>(args)...);
}

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

}  // namespace

/// The one call in progress, and its deadline.
class EtcdStore::Turn {
 public:
  explicit Turn(EtcdStore& store) : store_(store), deadline_(Clock::now() + store.options_.timeout) {
    std::unique_lock lock(store.mutex_);
    if (store.turn_over_.wait_until(lock, deadline_, [&] { return !store.busy_; })) {
      store.busy_ = true;
      return;
    }
    fail(ErrorKind::timeout, "etcd", "{} was busy with another call for {:.1f} s", store.describe(),
         std::chrono::duration<double>(store.options_.timeout).count());
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    {
      const std::lock_guard lock(store_.mutex_);
      store_.busy_ = false;
    }
    store_.turn_over_.notify_one();
  }
  Deadline deadline() const { return deadline_; }

 private:
  EtcdStore& store_;
  Deadline deadline_;
};

EtcdStore::EtcdStore(const EtcdStoreOptions& options)
    : options_(options),
      prefix_("/lockstep/" + options.job + "/"),
      lease_(lease_of(prefix_)),
      ticket_(prefix_ + "adds/" + random_name()),
      client_(options.address) {
  grant_lease(Turn(*this).deadline());
}

std::string EtcdStore::describe() const { return fmt::format("{} under {}", client_.describe(), prefix_); }

etcd::HttpServer EtcdStore::server() {
  const Turn turn(*this);
  return client_.server();
}

std::string EtcdStore::full(const std::string& key) const {
  // The agents' keys carry the name of their job already.
  const std::string rooted = "/" + key;
  return rooted.starts_with(prefix_) ? rooted : prefix_ + key;
}

std::optional<std::string> EtcdStore::get(const std::string& key) { return get_all({key}).front(); }

std::vector<std::optional<std::string>> EtcdStore::get_all(const std::vector<std::string>& keys) {
  const Turn turn(*this);
  std::vector<std::optional<std::string>> values;
  constexpr std::size_t kMostInOne = 100;  // etcd takes 128 by default
  while (values.size() < keys.size()) {
    json ranges = json::array();
    const std::size_t end = std::min(keys.size(), values.size() + kMostInOne);
    for (std::size_t i = values.size(); i < end; ++i) ranges.push_back(find_in_txn(full(keys[i])));
    const auto answer = ask(kTxn, txn(ranges), turn.deadline());
    for (std::size_t i = 0; i < ranges.size(); ++i) values.push_back(value_of(entry_in_txn(answer.body, i)));
  }
  return values;
}

void EtcdStore::set(const std::string& key, const std::string& value) {
  const Turn turn(*this);
  ask(kTxn, txn(json::array({put_in_txn(full(key), value, lease_)})), turn.deadline());
}

std::int64_t EtcdStore::add(const std::string& key, std::int64_t delta) {
  const Turn turn(*this);
  const std::string counter = full(key);
  const std::string number = std::to_string(++adds_);
  const json look = json::array({find_in_txn(counter), find_in_txn(ticket_)});
  auto answer = ask(kTxn, txn(look), turn.deadline());
  while (true) {
    const json held = entry_in_txn(answer.body, 0);
    const std::int64_t sum = count_of(held) + delta;
    // One transaction writes both the sum and the ticket: an addition whose answer was lost is found again by its
    // ticket.
    const json write = json::array({put_in_txn(counter, std::to_string(sum), lease_),
                                    put_in_txn(ticket_, number + " " + std::to_string(sum), lease_)});
    answer = ask(kTxn, txn(if_unchanged(counter, held), write, look), turn.deadline());
    if (succeeded(answer.body)) return sum;
    if (!answer.repeated) continue;
    if (const auto done = sum_of_ticket(value_of(entry_in_txn(answer.body, 1)), number)) return *done;
  }
}

bool EtcdStore::replace(const std::string& key, const std::optional<std::string>& expected, const std::string& value) {
  const Turn turn(*this);
  const std::string name = full(key);
  const json write = json::array({put_in_txn(name, value, lease_)});
  const auto answer =
      ask(kTxn, txn(if_holds(name, expected), write, json::array({find_in_txn(name)})), turn.deadline());
  return succeeded(answer.body) || value_of(entry_in_txn(answer.body, 0)) == value;
}

etcd::EtcdAnswer EtcdStore::ask(const std::string& path, const json& request, Deadline deadline) {
  keep_lease(deadline);
  bool repeated = false;
  while (true) {
    etcd::EtcdAnswer answer = client_.call(path, request, deadline);
    answer.repeated = repeated = repeated || answer.repeated;
    if (answer.refusal.empty()) return answer;
    if (answer.refusal.find("lease not found") == std::string::npos || Clock::now() >= deadline) {
      fail(ErrorKind::io, "etcd", "{} refused a request to {}: {}", describe(), path, answer.refusal);
    }
    grant_lease(deadline);
  }
}

void EtcdStore::keep_lease(Deadline deadline) {
  if (Clock::now() - lease_used_ < options_.lease / 3) return;
  const auto answer = client_.call(kKeepAlive, json::object({{"ID", lease_}}), deadline);
  if (lease_is_alive(answer.body)) {
    lease_used_ = Clock::now();
  } else {
    grant_lease(deadline);
  }
}

void EtcdStore::grant_lease(Deadline deadline) {
  const auto first = std::exchange(lease_used_, Clock::now()) == Deadline{};
  const auto request = json::object({{"ID", lease_}, {"TTL", std::to_string(options_.lease.count())}});
  const auto answer = client_.call("/v3/lease/grant", request, deadline);
  if (!answer.refusal.empty() && answer.refusal.find("already exists") == std::string::npos) {
    fail(ErrorKind::io, "etcd", "{} grants no lease: {}", describe(), answer.refusal);
  }
  if (first) {
    // Another store granted it, perhaps long ago.
    if (!answer.refusal.empty()) client_.call(kKeepAlive, json::object({{"ID", lease_}}), deadline);
  } else {
    log_warning("etcd had removed the keys under {}: no launcher of the job used them for {} s", prefix_,
                options_.lease.count());
  }
}

EtcdStoreOptions etcd_options(const std::string& endpoint, const std::string& job,
                              const std::map<std::string, std::string>& conf) {
  if (endpoint.empty()) {
    refuse("--rdzv_backend etcd needs --rdzv_endpoint HOST[:PORT], where etcd is; several servers with commas");
  }
  if (job.empty() || job == "none") {
    refuse(
        "--rdzv_backend etcd needs --rdzv_id, a name for this start of the job, the same on all nodes: other jobs may "
        "use the same etcd");
  }
  EtcdStoreOptions options;
  options.job = job;
  options.address.tls = parse_tls(conf);
  std::istringstream in(endpoint);
  for (std::string server; std::getline(in, server, ',');) options.address.servers.push_back(server_of(server));
  if (conf.contains("lease")) options.lease = parse_lease(setting(conf, "lease"));
  return options;
}

}  // namespace lockstep::cluster::elastic
