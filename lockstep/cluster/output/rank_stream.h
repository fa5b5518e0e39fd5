// One output stream of one rank: from its pipe to the launcher's console, line by line with a prefix, and unchanged to
// a file. The last lines of stderr are kept for the report. The console is a write queue for the launcher's own stdout
// or stderr, whose reader may be slower than the ranks or may have ended.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/output/rank_output.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// Cuts a stream of bytes into lines, for any sizes of the received pieces.
class LineSplitter {
 public:
  /// Receives one line with its end: "\n", "\r\n", or "\r" alone (a progress bar that redraws itself). A line longer
  /// than `longest` arrives in pieces, and only the last piece may have an end. A stream's unfinished last line has
  /// none.
  using Take = std::function<void(std::string_view)>;

  explicit LineSplitter(std::size_t longest = 64 << 10) : longest_(longest) {}

  void feed(std::string_view bytes, const Take& take);

  /// Hands out the rest after the end of the stream.
  void finish(const Take& take);

 private:
  std::size_t longest_;
  std::string pending_;
};

/// The last lines of a rank's output. Those of stderr are often the only information on why it failed.
class LineTail {
 public:
  /// `width`: longer lines lose their end.
  explicit LineTail(std::size_t lines = 12, std::size_t width = 400) : lines_(lines), width_(width) {}

  /// Takes a line with or without its end; blank ones, and those that a progress bar overwrites, are not kept.
  void add(std::string_view line);

  /// Oldest first.
  std::vector<std::string> lines() const { return {kept_.begin(), kept_.end()}; }

  /// The number of lines that it has kept so far.
  std::uint64_t count() const noexcept { return count_; }

 private:
  std::uint64_t count_ = 0;
  std::size_t lines_;
  std::size_t width_;
  std::deque<std::string> kept_;
};

/// A log file that gets bytes at once and unchanged. After the first failed write (a full disk) it writes nothing more,
/// so that the file has no holes.
class LogFile {
 public:
  /// The treatment of an old file, and the place of new bytes in a file that other processes write, too.
  enum class Mode { empty, append };

  /// Error(io) when the file cannot be made.
  explicit LogFile(std::filesystem::path path, Mode mode = Mode::empty);

  /// False when the file does not contain all of the bytes.
  bool append(std::string_view bytes);

  /// The file that failed, and why: returned once, after a write failed.
  std::optional<std::string> take_failure();

 private:
  std::filesystem::path path_;
  UniqueFd fd_;  ///< closed after a failure
  std::optional<std::string> failure_;
};

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

/// One output stream of one rank: from its pipe to the launcher's console, line by line with a prefix, and unchanged to
/// a file.
class RankStream {
 public:
  /// `prefix` goes before each line; when it is empty, bytes are passed on unchanged. `sink` and `tail` (may be null)
  /// outlive the stream. Error(io) when the outlet's file cannot be made.
  RankStream(UniqueFd pipe, std::string prefix, ConsoleSink& sink, LineTail* tail = nullptr, const Outlet& outlet = {});

  /// Keeps later lines there as well. `tail` outlives the stream.
  void keep_in(LineTail& tail) { second_tail_ = &tail; }

  int fd() const noexcept { return pipe_.get(); }
  bool open() const noexcept { return static_cast<bool>(pipe_); }

  /// Whether the console's queue is full, so that this stream should not be read now.
  bool must_wait() const noexcept { return console_ && sink_->full(); }

  /// Reads once; call when poll reported the pipe. At the end of the stream passes on the rest and closes.
  void read_some();

  /// Passes on `bytes` as output of the rank, before anything read from the pipe.
  void take(std::string_view bytes);

  /// Closes a pipe that another process still holds open.
  void close();

  /// The file that could not be written, and why: returned once. The console then shows the text that is missing in the
  /// file.
  std::optional<std::string> take_log_failure();

 private:
  void pass_on(std::string_view line);
  void copy_if_chosen(std::string_view line);

  UniqueFd pipe_;
  std::string prefix_;
  ConsoleSink* sink_;
  LineTail* tail_;
  LineTail* second_tail_ = nullptr;
  bool console_;
  std::optional<LogFile> log_;
  std::optional<LogFile> filtered_;
  std::vector<std::string> words_;  ///< the words of lines for it
  LineSplitter splitter_;
};

}  // namespace lockstep::cluster
