#include <lockstep/cluster/rank_stream.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace lockstep::cluster {

RankStream::RankStream(UniqueFd pipe, std::string prefix, ConsoleSink& sink, StderrTail* tail, const Outlet& outlet)
    : pipe_(std::move(pipe)), prefix_(std::move(prefix)), sink_(&sink), tail_(tail), console_(outlet.console) {
  if (!outlet.file.empty()) log_.emplace(outlet.file);
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

std::optional<std::string> RankStream::take_log_failure() { return log_ ? log_->take_failure() : std::nullopt; }

void RankStream::pass_on(std::string_view line) {
  if (tail_ != nullptr) tail_->add(line);
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

}  // namespace lockstep::cluster
