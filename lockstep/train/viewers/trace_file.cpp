// The writer of trace events, one JSON object per line, thread-safe; microseconds are printed from whole nanoseconds.
// A merge of the traces of ranks in two passes: the earliest time, then events moved to the common clock.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/train/viewers/trace_file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <system_error>

namespace lockstep::train {
namespace {

constexpr const char* kWhere = "trace";

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// {"bytes":16,"group":"world"}
std::string object_of(const std::vector<TraceArgument>& arguments) {
  std::string text;
  for (const auto& [name, value] : arguments) {
    const auto* number = std::get_if<std::int64_t>(&value);
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", quoted(name),
                        number ? std::to_string(*number) : quoted(std::get<std::string_view>(value)));
  }
  return "{" + text + "}";
}

// "-0.001", "1234.567": by whole numbers, because a double has no room for nanoseconds since 1970.
std::string microseconds(std::chrono::nanoseconds time) {
  const auto count = time.count();
  const auto size = count < 0 ? 0 - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  return fmt::format("{}{}.{:03}", count < 0 ? "-" : "", size / 1000, size % 1000);
}

GrowingFile open_anew(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) fail(ErrorKind::io, kWhere, "cannot create {}: {}", path.string(), disk_reason(errno, path));
  return {std::move(fd), path, kWhere};
}

using Json = nlohmann::ordered_json;

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

TraceFile::TraceFile(const std::filesystem::path& path, int rank) : rank_(rank), file_(open_anew(path)) {
  file_.add(
      fmt::format("[\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{0},\"tid\":0,\"args\":{{\"name\":\"rank "
                  "{0}\"}}}},\n{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{0},\"tid\":0,\"args\":"
                  "{{\"sort_index\":{0}}}}}",
                  rank));
  file_.flush();
}

TraceFile::~TraceFile() {
  try {
    file_.add("\n]\n");
  } catch (const std::exception&) {
    // Viewers open the file without the bracket.
  }
}

void TraceFile::label(std::string_view remark) {
  const auto event =
      fmt::format(",\n{{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":{},\"tid\":0,\"args\":{{\"labels\":{}}}}}",
                  rank_, quoted(remark));
  const std::lock_guard lock(mutex_);
  file_.add(event);
}

void TraceFile::name_thread(std::int64_t thread, std::string_view title) {
  const auto event =
      fmt::format(",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", rank_,
                  thread, quoted(title));
  const std::lock_guard lock(mutex_);
  file_.add(event);
}

void TraceFile::add(const TraceSpan& span) {
  const auto event =
      fmt::format(",\n{{\"name\":{},\"cat\":{},\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}{}}}",
                  quoted(span.name), quoted(span.category), rank_, span.thread, microseconds(span.begin),
                  microseconds(span.duration), span.arguments.empty() ? "" : ",\"args\":" + object_of(span.arguments));
  const std::lock_guard lock(mutex_);
  file_.add(event);
}

void TraceFile::flush() {
  const std::lock_guard lock(mutex_);
  file_.flush();
}

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
