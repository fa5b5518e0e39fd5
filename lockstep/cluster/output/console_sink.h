// Write queue for the launcher's own stdout or stderr, whose reader may be slower than the ranks or gone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::cluster {

/// Queues bytes for a descriptor that the poll loop writes out when it can take them, so that a full pipe or a paused
/// terminal never stops the supervision. The descriptor's flags are left alone: others share it.
class ConsoleSink {
 public:
  explicit ConsoleSink(int fd);

  int fd() const noexcept { return fd_; }
  void append(std::string_view text);

  /// What stands on the terminal's line now will be written over (it ended in "\r"), and may be longer.
  bool overwrites() const noexcept { return terminal_ && last_ == '\r'; }

  /// There is something to write: poll for POLLOUT.
  bool pending() const noexcept { return written_ < queue_.size(); }

  /// So much is queued that the ranks should wait.
  bool full() const noexcept;

  /// Call when poll reported the descriptor. After the reader has gone, everything is dropped.
  void write_some();

  /// True once, when the reader was found gone.
  bool take_lost() noexcept;

 private:
  int fd_;
  bool terminal_;
  char last_ = '\n';  ///< appended
  std::string queue_;
  std::size_t written_ = 0;  ///< bytes of the queue that are out already
  bool gone_ = false;
  bool gone_told_ = false;
};

}  // namespace lockstep::cluster
