// A queue before stdout or stderr, written in pieces of PIPE_BUF bytes that do not block.
#include <lockstep/cluster/output/console_sink.h>

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lockstep::cluster {

namespace {
constexpr std::size_t kQueueLimit = 1 << 20;
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
