// A REST client of Kubernetes: single objects, lists in pages and watches, with rotating tokens and a rate limit.
#include <apps/operator/api/client.h>
#include <apps/operator/api/resource.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::kube {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using std::chrono::seconds;

constexpr std::size_t kLongestAnswer = std::size_t{64} << 20;  // a page of 500 Pods has several MB
constexpr seconds kLongestRequest(30);
constexpr seconds kLongestSilence(15);  // after the requested end of a watch
constexpr seconds kTokenAge(60);
constexpr int kMostListings = 5;

/// The names of the TLS settings in messages for the user.
net::TlsTerms terms() { return {"certificate-authority of the kubeconfig", false, "https:// in the server's address"}; }

}  // namespace

struct ApiClient::State {
  Access access;
  std::shared_ptr<RateLimit> limit;
  net::HttpClient http;
  std::string token;
  Clock::time_point token_read{};

  CountRequest count;
  std::chrono::milliseconds longest = kLongestRequest;

  State(const Access& given, std::shared_ptr<RateLimit> shared, CountRequest counter)
      : access(given),
        limit(std::move(shared)),
        http(given.server, given.tls, kLongestAnswer, terms()),
        token(given.token),
        count(std::move(counter)) {}

  /// False when the token in the file has not changed.
  bool read_token() {
    if (access.token_file.empty()) return false;
    token_read = Clock::now();
    auto text = read_file(access.token_file);
    if (!text) return false;  // during the replacement of the file; the old token may still be valid
    while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
    if (*text == token) return false;
    token = std::move(*text);
    return true;
  }

  net::HttpAsk ask(std::string method, const std::string& path, std::string type = "", std::string body = "") {
    if (!access.token_file.empty() && (token.empty() || Clock::now() - token_read > kTokenAge)) read_token();
    net::HttpAsk made{std::move(method), access.base_path + path, std::move(type), std::move(body), {}};
    made.fields.emplace_back("Accept", "application/json");
    made.fields.emplace_back("User-Agent", "lockstep-operator");
    if (!token.empty()) made.fields.emplace_back("Authorization", "Bearer " + token);
    return made;
  }

  Answer send(const std::string& method, const std::string& path, const std::string& type = "",
              const std::string& body = "") {
    bool lost = false;
    for (bool again = false;; again = true) {
      if (limit) std::this_thread::sleep_for(limit->take());
      Answer answer;
      try {
        answer = judge(http.send(ask(method, path, type, body), Clock::now() + longest));
      } catch (const Error& error) {
        answer.message = fmt::format("{} {}: {}", method, http.server().text(), error.message());
      }
      if (count) count(method, answer.outcome);
      if (answer.outcome == Outcome::unauthorized && !again && read_token()) continue;
      // The server may have closed a keep-alive connection. A GET may be repeated.
      if (answer.outcome == Outcome::lost && method == "GET" && !std::exchange(lost, true)) continue;
      return answer;
    }
  }
};

ApiClient::ApiClient(const Access& access, std::shared_ptr<RateLimit> limit, CountRequest count)
    : state_(std::make_unique<State>(access, std::move(limit), std::move(count))) {}
ApiClient::ApiClient(ApiClient&&) noexcept = default;
ApiClient& ApiClient::operator=(ApiClient&&) noexcept = default;
ApiClient::~ApiClient() = default;

Answer ApiClient::get(const std::string& path) { return state_->send("GET", path); }

Answer ApiClient::create(const std::string& path, const json& object) {
  return state_->send("POST", path, "application/json", object.dump());
}

Answer ApiClient::replace(const std::string& path, const json& object) {
  return state_->send("PUT", path, "application/json", object.dump());
}

Answer ApiClient::patch(const std::string& path, const json& patch, const std::string& content_type) {
  return state_->send("PATCH", path, content_type, patch.dump());
}

Answer ApiClient::remove(const std::string& path, const Deletion& deletion) {
  json options = {{"kind", "DeleteOptions"},
                  {"apiVersion", "v1"},
                  {"propagationPolicy", deletion.in_background ? "Background" : "Foreground"}};
  if (!deletion.uid.empty()) options["preconditions"] = {{"uid", deletion.uid}};
  if (deletion.grace_seconds) options["gracePeriodSeconds"] = *deletion.grace_seconds;
  return state_->send("DELETE", path, "application/json", options.dump());
}

Listed ApiClient::list(const std::string& path, const std::string& label_selector, int page) {
  Listed listed;
  for (int attempt = 0; attempt < kMostListings; ++attempt) {
    listed.items.clear();
    std::string next;
    do {
      std::string target = fmt::format("{}?limit={}", path, page);
      if (!label_selector.empty()) target += "&labelSelector=" + escape_query(label_selector);
      if (!next.empty()) target += "&continue=" + escape_query(next);
      listed.answer = get(target);
      if (!listed.answer.ok()) break;
      json& object = listed.answer.object;
      for (json& item : object["items"]) listed.items.push_back(std::move(item));
      const json about = object.value("metadata", json::object());
      listed.version = about.value("resourceVersion", "");
      next = about.value("continue", "");
      object = json();
    } while (!next.empty());
    if (listed.answer.outcome != Outcome::expired) break;
  }
  return listed;
}

WatchEnd ApiClient::watch(const std::string& path, const std::string& label_selector, std::string version, seconds time,
                          const std::function<void(const WatchEvent&)>& take) {
  std::string target = fmt::format("{}?watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}", path,
                                   escape_query(version), time.count());
  if (!label_selector.empty()) target += "&labelSelector=" + escape_query(label_selector);
  WatchLines lines;
  WatchEnd end{std::move(version), std::nullopt, ""};
  try {
    const auto response = state_->http.stream(state_->ask("GET", target), Clock::now() + time + kLongestSilence,
                                              [&](std::string_view piece) {
                                                for (const WatchEvent& event : lines.take(piece)) {
                                                  take(event);
                                                  end.version = event.version;
                                                }
                                              });
    if (response.status != 200) end.why = judge(response);
  } catch (const Error& error) {
    end.trouble = error.message();
  }
  if (lines.error()) end.why = lines.error();
  if (end.why && end.why->outcome == Outcome::unauthorized) state_->read_token();
  if (end.why && end.why->outcome == Outcome::expired) end.version.clear();
  return end;
}

void ApiClient::set_limit(std::chrono::milliseconds limit) { state_->longest = limit; }

void ApiClient::cancel() noexcept { state_->http.cancel(); }

std::string ApiClient::server() const { return state_->http.server().text(); }

RateLimit::Clock::duration RateLimit::take(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (now > last_) {
    left_ = std::min(burst_, left_ + per_second_ * std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  left_ -= 1;
  if (left_ >= 0) return {};
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(-left_ / per_second_));
}

}  // namespace lockstep::kube
