// The log, over one spdlog logger in its registry; before it is started, warnings and errors go to stderr.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace lockstep {
namespace {

// spdlog's registry holds the logger, so that Lockstep itself needs no global.
constexpr const char* kLoggerName = "lockstep";

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "error";
}

spdlog::level::level_enum parse_level(const std::string& text) {
  const auto names = log_level_names();
  if (std::find(names.begin(), names.end(), text) == names.end()) {
    fail(ErrorKind::invalid_argument, "log", "there is no log level '{}'{} (levels: {})", cut_text(text),
         did_you_mean(text, names), fmt::join(names, ", "));
  }
  return spdlog::level::from_str(text);
}

std::string rank_prefix(const LogOptions& options) {
  return options.size > 1 ? fmt::format("[rank {}/{}] ", options.rank, options.size) : std::string();
}

std::shared_ptr<spdlog::sinks::sink> open_file_sink(const std::filesystem::path& file, const std::string& prefix) {
  try {
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e [%l] " + prefix + "%v");
    return sink;
  } catch (const std::exception& error) {  // filesystem_error or spdlog_ex: both name path and reason
    fail(ErrorKind::io, "log", "cannot open the log file {}: {}", file.string(), error.what());
  }
}

std::shared_ptr<spdlog::sinks::sink> make_console_sink(const std::string& prefix) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_pattern("[%l] " + prefix + "%v");
  return sink;
}

}  // namespace

std::vector<std::string> log_level_names() { return {"debug", "info", "warning", "error", "off"}; }

void start_logging(const LogOptions& options) {
  const auto level = parse_level(options.level);
  const std::string prefix = rank_prefix(options);
  std::vector<spdlog::sink_ptr> sinks;
  if (options.file) sinks.push_back(open_file_sink(*options.file, prefix));
  if (options.console) sinks.push_back(make_console_sink(prefix));
  auto logger = std::make_shared<spdlog::logger>(kLoggerName, sinks.begin(), sinks.end());
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  stop_logging();
  spdlog::register_logger(std::move(logger));
}

void stop_logging() {
  if (const auto logger = spdlog::get(kLoggerName)) logger->flush();
  spdlog::drop(kLoggerName);
}

bool log_enabled(LogLevel level) {
  if (const auto logger = spdlog::get(kLoggerName)) return logger->should_log(to_spdlog(level));
  return level >= LogLevel::warning;
}

void write_log(LogLevel level, std::string_view text) {
  const auto line = shown_message(text);
  if (const auto logger = spdlog::get(kLoggerName)) {
    logger->log(to_spdlog(level), spdlog::string_view_t(line));
  } else if (level >= LogLevel::warning) {
    // One call, so that lines of several threads do not mix.
    const std::string whole = fmt::format("[{}] {}\n", level_name(level), line);
    std::fwrite(whole.data(), 1, whole.size(), stderr);
  }
}

}  // namespace lockstep
