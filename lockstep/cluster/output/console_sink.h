// A write queue for the launcher's own stdout or stderr, whose reader may be slower than the ranks or may have ended.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::cluster {

/// Queues bytes for a descriptor. The poll loop writes them when the descriptor can take them, so that a full pipe or a
/// paused terminal never stops the supervision. Leaves the descriptor's flags alone, because other processes share it.
class ConsoleSink {
 public:
  explicit ConsoleSink(int fd);

  int fd() const noexcept { return fd_; }
  void append(std::string_view text);

  /// Whether the next text overwrites the terminal's current line (it ended in "\r"), which may be longer.
  bool overwrites() const noexcept { return terminal_ && last_ == '\r'; }

  /// Whether there is something to write: poll for POLLOUT.
  bool pending() const noexcept { return written_ < queue_.size(); }

  /// Whether the queue is so long that the ranks should wait.
  bool full() const noexcept;

  /// Call when poll reported the descriptor. After the reader has ended, drops everything.
  void write_some();

  /// True once, when the reader was found to have ended.
  bool take_lost() noexcept;

 private:
  int fd_;
  bool terminal_;
  char last_ = '\n';  ///< the last appended character
  std::string queue_;
  std::size_t written_ = 0;  ///< bytes of the queue that are written already
  bool gone_ = false;
  bool gone_told_ = false;
};

}  // namespace lockstep::cluster
