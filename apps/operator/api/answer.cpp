// The classification of HTTP codes and Status objects of Kubernetes as outcomes: done, conflict, later, lost, ...; and
// a splitter of a watch's byte stream into JSON events (ADDED, MODIFIED, DELETED, BOOKMARK) and its ERROR.
#include <apps/operator/api/answer.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

namespace lockstep::kube {
namespace {

using nlohmann::json;

constexpr int kLongestWait = 3600;

std::string text_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Outcome sort(unsigned code, const std::string& reason, const std::string& message) {
  switch (code) {
    case 401: return Outcome::unauthorized;
    case 403: return Outcome::forbidden;
    case 404: return Outcome::missing;
    case 409: return reason == "AlreadyExists" ? Outcome::exists : Outcome::conflict;
    case 410: return Outcome::expired;
    case 408:
    case 429: return Outcome::later;
    // A retry cannot help, because an object above etcd's size limit stays too large.
    case 500: return message.find("request is too large") != std::string::npos ? Outcome::invalid : Outcome::later;
    default: break;
  }
  if (code >= 200 && code < 300) return Outcome::done;
  return code >= 500 ? Outcome::later : Outcome::invalid;
}

std::optional<std::chrono::seconds> wait_in(const json& status) {
  const auto details = status.find("details");
  if (details == status.end() || !details->is_object()) return std::nullopt;
  const auto wait = details->find("retryAfterSeconds");
  if (wait == details->end() || !wait->is_number_integer()) return std::nullopt;
  const auto seconds = wait->get<std::int64_t>();
  if (seconds < 0 || seconds > kLongestWait) return std::nullopt;
  return std::chrono::seconds(seconds);
}

constexpr std::size_t kLongestLine = std::size_t{4} << 20;

[[noreturn]] void refuse(const std::string& line) {
  fail(ErrorKind::data, "watch", "a line of a watch is no event: '{}'", cut_text(line, 100));
}

std::optional<Change> change_of(const std::string& type) {
  if (type == "ADDED") return Change::added;
  if (type == "MODIFIED") return Change::modified;
  if (type == "DELETED") return Change::deleted;
  if (type == "BOOKMARK") return Change::bookmark;
  return std::nullopt;
}

}  // namespace

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::done: return "done";
    case Outcome::unauthorized: return "unauthorized";
    case Outcome::forbidden: return "forbidden";
    case Outcome::missing: return "missing";
    case Outcome::exists: return "exists";
    case Outcome::conflict: return "conflict";
    case Outcome::expired: return "expired";
    case Outcome::invalid: return "invalid";
    case Outcome::later: return "later";
    case Outcome::lost: return "lost";
  }
  return "?";
}

std::string Answer::text() const {
  if (code == 0) return message;
  return fmt::format("{}{}{}: {}", code, reason.empty() ? "" : " ", reason, message);
}

Answer judge_status(const json& status) {
  Answer answer;
  const auto code = status.find("code");
  answer.code = code != status.end() && code->is_number_unsigned() ? code->get<unsigned>() : 500;
  answer.reason = text_in(status, "reason");
  answer.message = text_in(status, "message");
  answer.retry_after = wait_in(status);
  answer.outcome = sort(answer.code, answer.reason, answer.message);
  return answer;
}

Answer judge(const net::HttpResponse& response) {
  auto body = json::parse(response.body, nullptr, false);
  Answer answer;
  answer.code = response.status;
  answer.retry_after = response.retry_after;
  if (!body.is_object()) {
    answer.message = response.body.substr(0, 200);
    // For example "404 page not found" for an API group that the server lacks.
    answer.outcome = response.status == 200 ? Outcome::later : sort(response.status, "", answer.message);
    return answer;
  }
  answer.reason = text_in(body, "reason");
  answer.message = text_in(body, "message");
  if (!answer.retry_after) answer.retry_after = wait_in(body);
  answer.outcome = sort(response.status, answer.reason, answer.message);
  if (answer.ok()) answer.object = std::move(body);
  return answer;
}

std::vector<WatchEvent> WatchLines::take(std::string_view piece) {
  std::vector<WatchEvent> events;
  rest_ += piece;
  std::size_t begin = 0;
  for (std::size_t end; !error_ && (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = rest_.substr(begin, end - begin);
    if (line.empty()) continue;
    auto parsed = json::parse(line, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("type") || !parsed["type"].is_string() || !parsed.contains("object") ||
        !parsed["object"].is_object()) {
      refuse(line);
    }
    const auto type = parsed["type"].get<std::string>();
    if (type == "ERROR") {
      error_ = judge_status(parsed["object"]);
      break;
    }
    const auto change = change_of(type);
    if (!change) continue;  // an event type of a newer server
    WatchEvent event{*change, std::move(parsed["object"]), ""};
    const auto version = event.object.value(json::json_pointer("/metadata/resourceVersion"), json());
    if (!version.is_string()) refuse(line);
    event.version = version.get<std::string>();
    events.push_back(std::move(event));
  }
  rest_.erase(0, begin);
  if (rest_.size() > kLongestLine)
    fail(ErrorKind::data, "watch", "a line of a watch is longer than {} bytes", kLongestLine);
  return events;
}

}  // namespace lockstep::kube
