// Console output over stdio with terminal escapes: lines above a redrawn bar, switched off when a write fails.
#include <lockstep/base/environment.h>
#include <lockstep/base/log.h>
#include <lockstep/base/this_host.h>
#include <lockstep/train/output/console.h>

#include <fmt/format.h>
#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>

namespace lockstep::train {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

// Set by `lockstep run` when it shows the output of this process, which is a pipe, on a terminal.
std::optional<std::int64_t> columns_behind_pipe() {
  struct stat out {};
  if (::fstat(STDOUT_FILENO, &out) != 0 || !S_ISFIFO(out.st_mode)) return std::nullopt;
  return find_integer(current_environment(), "LOCKSTEP_TERMINAL_COLUMNS", 1, 1 << 20);
}

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return static_cast<std::size_t>(columns_behind_pipe().value_or(80));
}

std::string coloured(std::string_view line) {
  const auto* colour = line.starts_with("warning:") ? "\x1b[33m" : line.starts_with("done:") ? "\x1b[32m" : "";
  return *colour == '\0' ? std::string(line) : fmt::format("{}{}\x1b[0m", colour, line);
}

}  // namespace

ProgressStyle progress_style(std::string_view progress, bool is_terminal) {
  if (progress == "off") return ProgressStyle::off;
  if (is_terminal) return ProgressStyle::bar;
  return progress == "on" ? ProgressStyle::lines : ProgressStyle::off;
}

bool stdout_is_terminal() {
  return is_terminal_of_session(STDOUT_FILENO, current_environment()) || columns_behind_pipe();
}

bool wants_colours() { return stdout_is_terminal() && find(current_environment(), "NO_COLOR").value_or("").empty(); }

Console::Console(bool shown, ProgressStyle style, bool colours)
    : shown_(shown), style_(shown ? style : ProgressStyle::off), colours_(colours) {}

Console::~Console() { end_progress(); }

void Console::line(std::string_view text) {
  if (!shown_) return;
  std::string out;
  if (!bar_.empty()) out += kClearLine;
  out += colours_ ? coloured(text) : std::string(text);
  out += '\n';
  out += bar_;
  put(out);
}

void Console::progress(std::string_view text) {
  if (style_ == ProgressStyle::lines) put(std::string(text) + '\n');
  if (style_ != ProgressStyle::bar) return;
  // A bar that wraps could not be redrawn in place; the texts are ASCII, so that a byte is a column.
  bar_ = std::string(text.substr(0, terminal_columns() - 1));
  put(std::string(kClearLine) + bar_);
}

void Console::clear_progress() {
  if (bar_.empty()) return;
  bar_.clear();
  put(kClearLine);
}

void Console::end_progress() {
  if (bar_.empty()) return;
  bar_.clear();
  put("\n");
}

// The console only informs: a closed pipe (`... | head -1`) or a full disk must not end the run.
void Console::put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  const auto words =
      fmt::format("the console's output cannot be written ({}): training goes on, and the log has the same lines",
                  std::generic_category().message(errno));
  ::__fpurge(stdout);  // stdio would write the rest again at the end of the process
  shown_ = false;
  style_ = ProgressStyle::off;
  bar_.clear();
  log_warning("{}", words);
  fmt::print(stderr, "lockstep: {}\n", words);
}

void tell(Console& console, std::string_view line) {
  write_log(LogLevel::info, line);
  console.line(line);
}

}  // namespace lockstep::train
