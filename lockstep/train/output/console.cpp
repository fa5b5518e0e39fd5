#include <lockstep/base/environment.h>
#include <lockstep/base/log.h>
#include <lockstep/base/terminal.h>
#include <lockstep/train/output/console.h>

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

namespace lockstep::train {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

// Set by `lockstep run` when it shows on a terminal what this process writes to a pipe.
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

}  // namespace

ProgressStyle progress_style(std::string_view progress, bool is_terminal) {
  if (progress == "off") return ProgressStyle::off;
  if (is_terminal) return ProgressStyle::bar;
  return progress == "on" ? ProgressStyle::lines : ProgressStyle::off;
}

bool stdout_is_terminal() {
  return is_terminal_of_session(STDOUT_FILENO, current_environment()) || columns_behind_pipe();
}

Console::Console(bool shown, ProgressStyle style) : shown_(shown), style_(shown ? style : ProgressStyle::off) {}

Console::~Console() { end_progress(); }

void Console::line(std::string_view text) {
  if (!shown_) return;
  std::string out;
  if (!bar_.empty()) out += kClearLine;
  out += text;
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

void Console::end_progress() {
  if (bar_.empty()) return;
  bar_.clear();
  put("\n");
}

void Console::put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void tell(Console& console, std::string_view line) {
  write_log(LogLevel::info, line);
  console.line(line);
}

}  // namespace lockstep::train
