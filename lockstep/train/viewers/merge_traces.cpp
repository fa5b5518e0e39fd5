// A merge of rank traces in two passes, line by line: the earliest time, then events moved to the common clock.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/train/viewers/merge_traces.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

namespace lockstep::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWhere = "trace";
constexpr double kNanosecondsInOne = 1e3;  // microsecond

// The event of a line; discarded where the line ends the array or was not finished.
Json event_of(std::string line) {
  if (line.ends_with(',')) line.pop_back();
  auto event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool timed = event.is_object() && event.contains("ts");
  if (!event.is_object() || (timed && !event["ts"].is_number())) return Json(Json::value_t::discarded);
  return event;
}

void for_each_event(const std::filesystem::path& file, const std::function<void(Json&)>& use) {
  errno = 0;
  std::ifstream in(file);
  std::string line;
  if (!in || (!std::getline(in, line) && errno != 0)) {
    fail(ErrorKind::io, kWhere, "cannot read {}: {}", file.string(), std::generic_category().message(errno));
  }
  if (line != "[") {
    fail(ErrorKind::data, kWhere, "{} is not a trace of a rank: its first line is not [", file.string());
  }
  while (std::getline(in, line)) {
    auto event = event_of(std::move(line));
    if (event.is_discarded()) break;
    use(event);
  }
}

std::chrono::nanoseconds time_of(const Json& event, const RankTrace& trace) {
  const auto own = std::chrono::nanoseconds(std::llround(event["ts"].get<double>() * kNanosecondsInOne));
  return own + trace.clock_offset;
}

std::optional<std::chrono::nanoseconds> earliest(std::span<const RankTrace> traces) {
  std::optional<std::chrono::nanoseconds> first;
  for (const auto& trace : traces) {
    for_each_event(trace.file, [&](const Json& event) {
      if (event.contains("ts")) first = std::min(first.value_or(time_of(event, trace)), time_of(event, trace));
    });
  }
  return first;
}

// A buffer of lines for an AtomicFile, which writes without a buffer.
class Lines {
 public:
  explicit Lines(AtomicFile& file) : file_(file) {}

  void add(std::string_view line) {
    constexpr std::size_t kEnough = std::size_t{64} << 10;
    text_ += line;
    if (text_.size() >= kEnough) write();
  }

  void write() {
    file_.write(text_);
    text_.clear();
  }

 private:
  AtomicFile& file_;
  std::string text_;
};

}  // namespace

void merge_traces(std::span<const RankTrace> traces, const std::filesystem::path& merged) {
  const auto start = earliest(traces).value_or(std::chrono::nanoseconds(0));
  AtomicFile file(merged);
  Lines lines(file);
  std::string_view before = "[\n";
  for (const auto& trace : traces) {
    for_each_event(trace.file, [&](Json& event) {
      if (event.contains("ts")) {
        event["ts"] = static_cast<double>((time_of(event, trace) - start).count()) / kNanosecondsInOne;
      }
      lines.add(before);
      lines.add(event.dump());
      before = ",\n";
    });
  }
  lines.add(before == "[\n" ? "[\n]\n" : "\n]\n");
  lines.write();
  file.commit();
}

}  // namespace lockstep::train
