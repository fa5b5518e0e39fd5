// A splitter of a watch's byte stream into JSON events (ADDED, MODIFIED, DELETED, BOOKMARK) and its ERROR.
#include <apps/operator/api/watch_lines.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

namespace lockstep::kube {
namespace {

using nlohmann::json;

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
