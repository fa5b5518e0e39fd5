// One output stream of one rank: from its pipe to the launcher's console, line by line with a prefix, and unchanged to
// a file.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/console_sink.h>
#include <lockstep/cluster/line_splitter.h>
#include <lockstep/cluster/log_file.h>
#include <lockstep/cluster/rank_output.h>
#include <lockstep/cluster/stderr_tail.h>

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cluster {

class RankStream {
 public:
  /// `prefix` goes before each line; when it is empty, bytes are passed on exactly as they are. `sink` and `tail` (may
  /// be null) outlive the stream. Error(io) when the outlet's file cannot be made.
  RankStream(UniqueFd pipe, std::string prefix, ConsoleSink& sink, StderrTail* tail = nullptr,
             const Outlet& outlet = {});

  int fd() const noexcept { return pipe_.get(); }
  bool open() const noexcept { return static_cast<bool>(pipe_); }

  /// Whether the console's queue is full, so that this stream should not be read now.
  bool must_wait() const noexcept { return console_ && sink_->full(); }

  /// Reads once; call when poll reported the pipe. At the end of the stream passes on the rest and closes.
  void read_some();

  /// Passes on `bytes` as output of the rank, before all that is read from the pipe.
  void take(std::string_view bytes);

  /// Closes a pipe that another process still holds open.
  void close();

  /// Which file could not be written, and why: returned once. The console then shows what is missing in the file.
  std::optional<std::string> take_log_failure();

 private:
  void pass_on(std::string_view line);

  UniqueFd pipe_;
  std::string prefix_;
  ConsoleSink* sink_;
  StderrTail* tail_;
  bool console_;
  std::optional<LogFile> log_;
  LineSplitter splitter_;
};

}  // namespace lockstep::cluster
