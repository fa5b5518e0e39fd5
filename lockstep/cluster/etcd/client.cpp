// A client of etcd's JSON gateway: tries the servers in turn until the deadline, with pauses that double.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/etcd/client.h>
#include <lockstep/cluster/etcd/messages.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::cluster::etcd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kLongestAnswer = 4 << 20;  // etcd's own limit for a request is 1.5 MiB
constexpr seconds kLongestAttempt(5);
constexpr milliseconds kLongestPause(250);

// Codes of gRPC, which etcd's gateway passes on.
constexpr int kDeadlineExceeded = 4;
constexpr int kResourceExhausted = 8;
constexpr int kUnavailable = 14;

struct Verdict {
  std::optional<EtcdAnswer> answer;
  std::string try_again;  ///< the reason to retry, where there is no answer
};

[[noreturn]] void refuse(const HttpServer& server, const std::string& path, const std::string& what) {
  fail(ErrorKind::io, "etcd",
       "{} does not answer as an etcd does: {} for POST {}. Is it the client port of an etcd 3.4 or newer?",
       server.text(), what, path);
}

Verdict judge_answer(const HttpServer& server, const std::string& path, const net::HttpResponse& answer) {
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  if (!json.is_object()) {
    refuse(server, path, fmt::format("status {} and '{}'", answer.status, cut_text(answer.body)));
  }
  if (answer.status == 200 && !json.contains("error")) return {EtcdAnswer{json, ""}, ""};
  const auto message = json.contains("message") ? json["message"] : json.value("error", nlohmann::json());
  if (!message.is_string())
    refuse(server, path, fmt::format("status {} and '{}'", answer.status, cut_text(answer.body)));
  const auto code = json.contains("code") && json["code"].is_number_integer() ? json["code"].get<std::int64_t>() : 0;
  const std::string reason = message.get<std::string>();
  if (code == kUnavailable || code == kDeadlineExceeded || code == kResourceExhausted) return {std::nullopt, reason};
  return {EtcdAnswer{json, reason}, ""};
}

Verdict attempt(net::HttpClient& client, const std::string& path, const std::string& request,
                Clock::time_point deadline) {
  net::HttpResponse answer;
  try {
    answer = client.post(path, request, deadline);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::data) refuse(client.server(), path, error.message());
    if (error.kind() == ErrorKind::environment) {
      fail(ErrorKind::io, "etcd", "no connection to etcd at {}: {}", client.server().text(), error.message());
    }
    return {std::nullopt, error.message()};
  }
  return judge_answer(client.server(), path, answer);
}

// The place where a user sets the authorities, for messages.
std::string authorities_of(const std::optional<TlsFiles>& files) {
  return files && files->authorities.empty() ? "the system's list (there is no ca_cert)" : "ca_cert";
}

using nlohmann::json;

constexpr const char* kTxn = "/v3/kv/txn";

}  // namespace

Client::Client(const Address& address)
    : tls_(address.tls.has_value()), named_(address.named), tls_hint_(address.tls_hint) {
  if (address.servers.empty()) fail(ErrorKind::invalid_argument, "etcd", "the address of no server was given");
  const auto tls = address.tls ? net::make_client_tls(*address.tls) : nullptr;
  for (const HttpServer& server : address.servers) {
    clients_.emplace_back(server, tls, kLongestAnswer, net::TlsTerms{authorities_of(address.tls), false});
  }
  reasons_.resize(clients_.size());
}

EtcdAnswer Client::call(const std::string& path, const nlohmann::json& request, Clock::time_point deadline) {
  const std::string text = request.dump();
  const auto begin = Clock::now();
  auto next_word = begin + seconds(2);
  milliseconds pause(5);
  std::fill(reasons_.begin(), reasons_.end(), "");
  for (std::size_t attempts = 1;; ++attempts) {
    net::HttpClient& client = clients_[current_];
    Verdict verdict = attempt(client, path, text, std::min(deadline, Clock::now() + kLongestAttempt));
    if (verdict.answer) return std::move(*verdict.answer);
    // An attempt that the deadline cut short does not describe the server; the attempt before it does.
    if (Clock::now() < deadline || reasons_[current_].empty()) {
      reasons_[current_] = fmt::format("{}: {}", client.server().text(), verdict.try_again);
    }
    current_ = (current_ + 1) % clients_.size();
    if (Clock::now() >= next_word) {
      log_warning("waiting for etcd: {} s of at most {} s ({})",
                  std::chrono::round<seconds>(Clock::now() - begin).count(),
                  std::chrono::ceil<seconds>(deadline - begin).count(), verdict.try_again);
      next_word = Clock::now() + seconds(10);
    }
    // The next server may be reachable; after one attempt at each server, wait before the next.
    if (attempts % clients_.size() == 0) {
      std::this_thread::sleep_until(std::min(deadline, Clock::now() + pause));
      pause = std::min(pause * 2, kLongestPause);
    }
    if (Clock::now() >= deadline) give_up(Clock::now() - begin);
  }
}

void Client::give_up(Clock::duration waited) const {
  std::vector<std::string> reasons;
  std::copy_if(reasons_.begin(), reasons_.end(), std::back_inserter(reasons),
               [](const std::string& reason) { return !reason.empty(); });
  // A server that accepts only TLS closes the connection of a client without TLS.
  const bool closed = std::any_of(reasons.begin(), reasons.end(), [](const std::string& reason) {
    return reason.find("it closed the connection") != std::string::npos;
  });
  fail(ErrorKind::timeout, "etcd",
       "no server of etcd answered within {:.1f} s ({}). Check that it runs and that this host can reach it, or "
       "correct {}{}",
       std::chrono::duration<double>(waited).count(), fmt::join(reasons, "; "), named_,
       closed && !tls_ ? "; if it uses TLS, " + tls_hint_ : "");
}

std::string Client::describe() const {
  std::vector<std::string> servers;
  for (const net::HttpClient& client : clients_) servers.push_back(client.server().text());
  return fmt::format("etcd at {}", fmt::join(servers, ", "));
}

Entry::Entry(const Address& address, std::string key) : key_(std::move(key)), client_(address) {}

std::optional<std::string> Entry::read(std::chrono::milliseconds limit) {
  return value_of(entry_in_txn(ask(kTxn, txn(json::array({find_in_txn(key_)})), limit), 0));
}

void Entry::write(const std::string& value, std::chrono::milliseconds limit) {
  constexpr const char* kNoLease = "0";
  ask(kTxn, txn(json::array({put_in_txn(key_, value, kNoLease)})), limit);
}

void Entry::remove(std::chrono::milliseconds limit) { ask(kTxn, txn(json::array({delete_in_txn(key_)})), limit); }

std::string Entry::describe() const { return fmt::format("{} in the {}", key_, client_.describe()); }

json Entry::ask(const std::string& path, const json& request, std::chrono::milliseconds limit) {
  auto answer = client_.call(path, request, std::chrono::steady_clock::now() + limit);
  if (!answer.refusal.empty()) fail(ErrorKind::io, "etcd", "{} is refused: {}", describe(), answer.refusal);
  return std::move(answer.body);
}

}  // namespace lockstep::cluster::etcd
