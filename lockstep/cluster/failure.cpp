// Exit codes by kind of error, and torchrun's error file (error.json): written, passed on and read.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/json.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/failure.h>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

namespace lockstep::cluster {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;
using std::chrono::system_clock;

constexpr const char* kNoMemory =
    "out of memory: the machine, the control group or `ulimit -v` of this shell refused it; use less (a smaller "
    "data.batch_size, fewer ranks or workers) or raise the limit";

json describe_failure(std::string_view message, std::string_view kind) {
  const auto now = system_clock::now().time_since_epoch();
  // torchrun's reader requires whole seconds as text; the order of failures needs more.
  const json extra = {
      {"timestamp", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count())},
      {"timestamp_ns", std::chrono::duration_cast<nanoseconds>(now).count()},
      {"kind", kind},
  };
  return {{"message", {{"message", message}, {"extraInfo", extra}}}};
}

std::optional<FailureNote> parse_note(const json& file) {
  if (!file.is_object() || !file.contains("message")) return std::nullopt;
  const json& message = file["message"];
  if (message.is_string()) return FailureNote{shown_message(message.get<std::string>()), "", std::nullopt};
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string()) return std::nullopt;

  FailureNote note{shown_message(message["message"].get<std::string>()), "", std::nullopt};
  const json extra = message.value("extraInfo", json::object());
  if (!extra.is_object()) return note;
  // Of Python: it ends with the message.
  if (extra.contains("py_callstack") && extra["py_callstack"].is_string()) {
    note.message = shown_message(extra["py_callstack"].get<std::string>());
  }
  if (extra.contains("kind") && extra["kind"].is_string()) note.kind = extra["kind"].get<std::string>();
  if (extra.contains("timestamp_ns") && extra["timestamp_ns"].is_number_integer()) {
    const nanoseconds since_epoch(integer_of<std::int64_t>(extra["timestamp_ns"]));
    note.when = system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(since_epoch));
  }
  return note;
}

/// Whether a launcher prints the reason: `lockstep run` prints the reasons that its ranks leave, each once.
bool launcher_shows_reason(const Environment& environment) {
  const auto file = find(environment, "TORCHELASTIC_ERROR_FILE");
  std::error_code unknown;
  return find(environment, "LOCKSTEP_STATUS_FILE") && file && std::filesystem::exists(*file, unknown);
}

/// Writes by rename, so that a launcher reads all of it or nothing. Writes in place where a rename is impossible, as
/// with a container's /dev/termination-log, which is mounted.
void leave(const std::filesystem::path& path, const std::string& text) {
  try {
    write_file_atomically(path, text);
  } catch (const Error&) {
    std::ofstream(path) << text;
  }
}

}  // namespace

int exit_code_for(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return kFailed;
  switch (ours->kind()) {
    case ErrorKind::invalid_argument:
    case ErrorKind::config:
    case ErrorKind::environment: return kUsage;
    default: return kFailed;
  }
}

int end_with(const std::exception& error, const std::string& text, const std::string& program) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  // Also where a thread rethrew it as an exception of another type.
  const auto shown = text == std::bad_alloc().what() ? std::string(kNoMemory) : shown_message(text);
  // First the file that a launcher reads, in case the launcher does not wait long.
  report_failure(shown, ours != nullptr ? name(ours->kind()) : "exception");
  std::fflush(stdout);
  if (!launcher_shows_reason(current_environment())) fmt::print(stderr, "{}: error: {}\n", program, shown);
  const int code = exit_code_for(error);
  if (lacks_address_space()) {  // a normal exit would wait for the threads of OpenBLAS, which never end
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

void report_failure(const std::exception& error, const Environment& environment) noexcept {
  const auto* ours = dynamic_cast<const Error*>(&error);
  report_failure(error.what(), ours != nullptr ? name(ours->kind()) : "exception", environment);
}

void report_failure(std::string_view message, std::string_view kind, const Environment& environment) noexcept {
  try {
    const auto path = find(environment, "TORCHELASTIC_ERROR_FILE");
    if (!path || path->empty()) return;
    leave(*path, describe_failure(shown_message(message), kind).dump(2, ' ', false, json::error_handler_t::replace));
  } catch (const std::exception&) {
    // The failure itself is still printed and ends the process with its exit code.
  }
}

void pass_on_failure(const std::filesystem::path& root_cause, const ExitStatus& status, std::string_view report,
                     const Environment& environment) noexcept {
  try {
    const auto path = find(environment, "TORCHELASTIC_ERROR_FILE");
    if (!path || path->empty()) return;
    std::ifstream in(root_cause);
    json cause = in ? json::parse(in, nullptr, false) : json();
    if (!parse_note(cause)) cause = describe_failure(report, "exception");
    // A note in the short form has no place for the code.
    if (cause["message"].is_object()) cause["message"]["errorCode"] = status.signal != 0 ? -status.signal : status.code;
    leave(*path, cause.dump(2, ' ', false, json::error_handler_t::replace));
  } catch (const std::exception&) {
    // The report has been printed, and the exit code shows the failure.
  }
}

std::optional<FailureNote> read_error_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  return parse_note(json::parse(in, nullptr, false));
}

}  // namespace lockstep::cluster
