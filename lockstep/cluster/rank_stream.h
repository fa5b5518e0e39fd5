// One output stream of one rank: from its pipe, line by line with a prefix, to the launcher's console.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/console_sink.h>
#include <lockstep/cluster/line_splitter.h>
#include <lockstep/cluster/stderr_tail.h>

#include <string>
#include <string_view>

namespace lockstep::cluster {

/// "[rank 1] ".
std::string prefix_of(int rank);

class RankStream {
 public:
  /// `prefix` goes before each line; when it is empty, bytes are passed on exactly as they are. `sink` and `tail` (may
  /// be null) outlive the stream.
  RankStream(UniqueFd pipe, std::string prefix, ConsoleSink& sink, StderrTail* tail = nullptr);

  int fd() const noexcept { return pipe_.get(); }
  bool open() const noexcept { return static_cast<bool>(pipe_); }
  const ConsoleSink& sink() const noexcept { return *sink_; }

  /// Reads once; call when poll reported the pipe. At the end of the stream passes on what is left and closes.
  void read_some();

  /// Gives up on a pipe that somebody still holds open.
  void close();

 private:
  void pass_on(std::string_view line);

  UniqueFd pipe_;
  std::string prefix_;
  ConsoleSink* sink_;
  StderrTail* tail_;
  LineSplitter splitter_;
};

}  // namespace lockstep::cluster
