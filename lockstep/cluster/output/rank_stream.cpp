// A rank's pipe: bytes to its log file, lines with a prefix to the console, and chosen lines to a filtered log; and the
// queue before the console, written in pieces of PIPE_BUF bytes that do not block.
#include <lockstep/base/error.h>
#include <lockstep/cluster/output/rank_stream.h>

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::cluster {
namespace {

/// The length of the first line in `text`, end included; 0 while its end has not arrived. A '\r' at the very end may be
/// the first half of "\r\n".
std::size_t first_line(std::string_view text) {
  const std::size_t end = text.find_first_of("\r\n");
  if (end == std::string_view::npos) return 0;
  if (text[end] == '\n') return end + 1;
  if (end + 1 == text.size()) return 0;
  return text[end + 1] == '\n' ? end + 2 : end + 1;
}

constexpr std::size_t kQueueLimit = 1 << 20;

}  // namespace

void LineSplitter::feed(std::string_view bytes, const Take& take) {
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const std::size_t line = first_line(rest);
    if (line == 0 && rest.size() < longest_) break;
    const std::size_t length = line != 0 && line <= longest_ ? line : longest_;
    take(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  pending_.erase(0, pending_.size() - rest.size());
}

void LineSplitter::finish(const Take& take) {
  if (!pending_.empty()) take(pending_);
  pending_.clear();
}

void LineTail::add(std::string_view line) {
  const bool redrawn = line.ends_with('\r');
  const std::size_t last = line.find_last_not_of("\r\n \t");
  if (redrawn || last == std::string_view::npos) return;
  line = line.substr(0, last + 1);
  kept_.push_back(line.size() <= width_ ? std::string(line) : std::string(line.substr(0, width_)) + "...");
  ++count_;
  if (kept_.size() > lines_) kept_.pop_front();
}

LogFile::LogFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  constexpr mode_t kReadableByAll = 0644;
  // Opened for appending, so that a log rotation may truncate the file.
  const int truncate = mode == Mode::empty ? O_TRUNC : 0;
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | truncate | O_APPEND | O_CLOEXEC, kReadableByAll));
  if (!fd_) fail(ErrorKind::io, "launch", "cannot write the log {}: {}", path_.string(), std::strerror(errno));
  fd_ = above_standard_streams(std::move(fd_));
}

bool LogFile::append(std::string_view bytes) {
  while (fd_ && !bytes.empty()) {
    const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      failure_ = fmt::format("{}: {}", path_.string(), std::strerror(errno));
      fd_.reset();
    }
  }
  return bytes.empty();
}

std::optional<std::string> LogFile::take_failure() { return std::exchange(failure_, std::nullopt); }

RankStream::RankStream(UniqueFd pipe, std::string prefix, ConsoleSink& sink, LineTail* tail, const Outlet& outlet)
    : pipe_(std::move(pipe)), prefix_(std::move(prefix)), sink_(&sink), tail_(tail), console_(outlet.console) {
  if (!outlet.file.empty()) log_.emplace(outlet.file);
  if (outlet.filtered.empty()) return;
  filtered_.emplace(outlet.filtered, LogFile::Mode::append);
  words_ = outlet.words;
}

void RankStream::read_some() {
  std::array<char, 64 << 10> buffer;
  const ssize_t count = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (count > 0) {
    take({buffer.data(), static_cast<std::size_t>(count)});
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    close();
  }
}

void RankStream::take(std::string_view bytes) {
  if (log_ && !log_->append(bytes)) console_ = true;
  splitter_.feed(bytes, [this](std::string_view line) { pass_on(line); });
}

void RankStream::close() {
  splitter_.finish([this](std::string_view line) { pass_on(line); });
  pipe_.reset();
}

std::optional<std::string> RankStream::take_log_failure() {
  auto failure = log_ ? log_->take_failure() : std::nullopt;
  if (!failure && filtered_) failure = filtered_->take_failure();
  return failure;
}

void RankStream::copy_if_chosen(std::string_view line) {
  const bool chosen =
      std::ranges::any_of(words_, [&](const std::string& word) { return line.find(word) != std::string_view::npos; });
  if (!chosen) return;
  // In one write, so that lines of several ranks do not mix.
  std::string text = prefix_ + std::string(line);
  if (!text.ends_with('\n')) text += '\n';
  filtered_->append(text);
}

void RankStream::pass_on(std::string_view line) {
  if (tail_ != nullptr) tail_->add(line);
  if (second_tail_ != nullptr) second_tail_->add(line);
  if (filtered_) copy_if_chosen(line);
  if (!console_) return;
  constexpr std::string_view kClearToEndOfLine = "\033[K";
  const bool overwrites = sink_->overwrites();
  sink_->append(prefix_);
  if (overwrites) sink_->append(kClearToEndOfLine);
  sink_->append(line);
  // A piece without an end must not run into another rank's line.
  const bool ended = line.ends_with('\n') || line.ends_with('\r');
  if (!ended && !prefix_.empty()) sink_->append("\n");
}

ConsoleSink::ConsoleSink(int fd) : fd_(fd), terminal_(::isatty(fd) == 1) {}

void ConsoleSink::append(std::string_view text) {
  if (gone_ || text.empty()) return;
  queue_ += text;
  last_ = text.back();
}

bool ConsoleSink::full() const noexcept { return queue_.size() - written_ >= kQueueLimit; }

void ConsoleSink::write_some() {
  // A pipe that polls writable takes PIPE_BUF bytes without blocking; nothing is guaranteed beyond that.
  const std::size_t wanted = std::min<std::size_t>(queue_.size() - written_, PIPE_BUF);
  const ssize_t count = ::write(fd_, queue_.data() + written_, wanted);
  if (count > 0) {
    written_ += static_cast<std::size_t>(count);
  } else if (count < 0 && errno != EINTR && errno != EAGAIN) {
    gone_ = true;
    written_ = queue_.size();
  }
  if (!pending() || written_ >= kQueueLimit) {
    queue_.erase(0, written_);
    written_ = 0;
  }
}

bool ConsoleSink::take_lost() noexcept { return gone_ && !std::exchange(gone_told_, true); }

}  // namespace lockstep::cluster
