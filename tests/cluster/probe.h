// Tells for certain whether any process that came from a job is left.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>

namespace lockstep::test {

/// A pipe whose writing end every process started meanwhile inherits, and theirs from them: it ends when they all have.
class Probe {
 public:
  Probe() { ::fcntl(pipe_.write_end.get(), F_SETFD, 0); }

  /// Call once, after the start. True when the last process has gone within `limit`.
  bool nobody_left(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    pipe_.write_end.reset();
    pollfd watched{pipe_.read_end.get(), POLLIN, 0};
    return ::poll(&watched, 1, static_cast<int>(limit.count())) == 1 && (watched.revents & POLLHUP) != 0;
  }

 private:
  Pipe pipe_ = make_pipe();
};

}  // namespace lockstep::test
