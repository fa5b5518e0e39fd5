// The writer of trace events, one JSON object per line, thread-safe; microseconds are printed from whole nanoseconds.
#include <lockstep/base/disk_reason.h>
#include <lockstep/base/error.h>
#include <lockstep/train/viewers/trace_file.h>

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace lockstep::train
