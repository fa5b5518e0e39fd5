// Console output over stdio with terminal escapes: lines above a redrawn bar, switched off when a write fails. Loss
// lines, epoch lines, and a progress bar with a moving average of the step time.
#include <lockstep/base/environment.h>
#include <lockstep/base/log.h>
#include <lockstep/base/status_page.h>
#include <lockstep/base/this_host.h>
#include <lockstep/train/output/console.h>

#include <fmt/format.h>

#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
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

namespace {

/// The loss of the whole job, where it is known.
std::optional<double> shown_loss(const StepReport& report) { return report.loss ? report.loss : report.local_loss; }

double rate(std::int64_t samples, double seconds) { return seconds > 0 ? static_cast<double>(samples) / seconds : 0.0; }

}  // namespace

std::string loss_line(std::int64_t epoch, std::int64_t step_in_epoch, double loss) {
  auto digits = fmt::format("{:.8g}", loss);
  if (digits.find_first_of(".en") == std::string::npos) digits += ".0";
  return fmt::format("epoch: {} step: {}, loss is {}", epoch, step_in_epoch, digits);
}

LossLog::LossLog(Console& console, std::optional<std::int64_t> every) : console_(console), every_(every) {}

void LossLog::after_step(RunView&, const StepReport& report) {
  const auto every = every_.value_or(std::max<std::int64_t>(1, report.steps_per_epoch / 10));
  const bool first = !every_ && report.step == 1;
  const auto before = report.step_in_epoch - report.steps;
  const bool due = report.step_in_epoch / every > before / every || before < 0;
  const auto loss = shown_loss(report);
  if (!loss || (!due && !first)) return;
  tell(console_, loss_line(report.epoch, report.step_in_epoch, *loss));
}

EpochLog::EpochLog(Console& console) : console_(console) {}

void EpochLog::after_epoch(RunView& run, const EpochReport& report) {
  tell(console_, fmt::format("epoch {}/{}: {} steps in {:.1f} s, {:.1f} ms a step, {:.1f} samples/s, lr {:.4g}",
                             report.epoch, report.epochs, report.steps, report.seconds,
                             report.steps > 0 ? 1e3 * report.seconds / static_cast<double>(report.steps) : 0.0,
                             rate(report.samples, report.seconds), run.lr()));
}

void EpochLog::after_evaluation(RunView&, const Evaluation& evaluation) {
  tell(console_, fmt::format("evaluation after epoch {}: {} ({} samples in {:.1f} s)", evaluation.epoch,
                             values_text(evaluation), evaluation.samples, evaluation.seconds));
  if (!evaluation.shown.empty()) tell(console_, evaluation.shown);
}

std::string values_text(const Evaluation& evaluation) {
  std::string text;
  for (const auto& [name, value] : evaluation.metrics) text += fmt::format("{} {:.4f}, ", name, value);
  const auto weights = evaluation.weights.empty() ? std::string() : fmt::format(" with {}", evaluation.weights);
  return text + fmt::format("loss {:.4f}{}", evaluation.loss, weights);
}

std::string time_line(const TimeDivision& times) {
  constexpr double kShown = 0.01;
  constexpr double kLongWait = 0.05;
  std::string parts;
  for (const auto name : kTimeParts) {
    const auto found = times.parts.find(name);
    const double share = found == times.parts.end() || times.wall <= 0 ? 0 : found->second / times.wall;
    if (share >= kShown) parts += fmt::format("{}{} {:.0f} %", parts.empty() ? ", of which " : ", ", name, 100 * share);
  }
  auto line = fmt::format("time: {:.1f} s{}; effective training time ratio {:.2f}", times.wall, parts, times.ettr());
  const auto& longest = times.longest_wait;
  const auto& shortest = times.shortest_wait;
  if (longest && shortest && longest->seconds - shortest->seconds > kLongWait * times.wall) {
    line += fmt::format("; rank {} waited {:.1f} s for other ranks, rank {} only {:.1f} s", longest->rank,
                        longest->seconds, shortest->rank, shortest->seconds);
  }
  return line;
}

Progress::Progress(Console& console) : console_(console) {}

void Progress::after_step(RunView&, const StepReport& report) {
  constexpr double kNew = 0.1;  // weight of the newest step: about the last ten count
  const double seconds = report.seconds / static_cast<double>(report.steps);
  step_seconds_ = step_seconds_ == 0 ? seconds : (1 - kNew) * step_seconds_ + kNew * seconds;
  const auto now = std::chrono::steady_clock::now();
  const bool last = report.step == report.total_steps;
  if (now < next_draw_ && !last) return;
  const bool bar = console_.style() == ProgressStyle::bar;
  next_draw_ = now + (bar ? std::chrono::milliseconds(100) : std::chrono::seconds(5));
  console_.progress(progress_text(report, step_seconds_));
}

void Progress::after_run(RunView&) { console_.end_progress(); }

std::string progress_text(const StepReport& report, double step_seconds) {
  constexpr std::int64_t kWidth = 24;
  const auto steps = std::max<std::int64_t>(report.steps_per_epoch, 1);
  const auto filled = std::clamp<std::int64_t>(kWidth * report.step_in_epoch / steps, 0, kWidth);
  std::string bar(static_cast<std::size_t>(filled), '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  const auto mean = shown_loss(report);
  const auto loss = mean ? fmt::format(" loss {:.4f}", *mean) : std::string();
  const auto left = static_cast<double>(report.total_steps - report.step) * step_seconds;
  return fmt::format("epoch {}/{} [{}] {:3}% step {}/{}{} {:.0f} samples/s {} left", report.epoch, report.epochs, bar,
                     100 * report.step_in_epoch / steps, report.step_in_epoch, report.steps_per_epoch, loss,
                     rate(report.samples, step_seconds * static_cast<double>(report.steps)), clock_text(left));
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::max(seconds, 0.0)));
  const auto hours = whole / 3600;
  const auto minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace lockstep::train
