// The log of this process: the console and, for each rank of a job, one file.
//
// Before `start_logging`, warnings and errors go to stderr and other lines are dropped. All functions are thread-safe.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

enum class LogLevel { debug, info, warning, error };

struct LogOptions {
  int rank = 0;
  int size = 1;                                 ///< above 1, lines begin with "[rank 1/2]"
  std::string level = "info";                   ///< one of log_level_names()
  std::optional<std::filesystem::path> file{};  ///< appended to; its folder is created when missing
  bool console = true;                          ///< whether lines also go to stderr
};

/// debug, info, warning, error, off.
std::vector<std::string> log_level_names();

/// Sets up the log; a second call replaces the first. Error(invalid_argument) for an unknown level, Error(io) when the
/// file cannot be opened. Lines of level info and above reach the file at once, so that a killed process loses none.
void start_logging(const LogOptions& options);

/// Flushes buffered lines and returns to the state before `start_logging`.
void stop_logging();

/// Whether a line of this level would be written anywhere.
bool log_enabled(LogLevel level);

/// Writes one line that is already formatted.
void write_log(LogLevel level, std::string_view line);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::debug)) write_log(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::info)) write_log(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::warning)) write_log(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::error)) write_log(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
