// An owning handle of one file descriptor, and pipes.
#pragma once

#include <utility>

namespace lockstep {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

  /// Releases ownership of the descriptor without closing it.
  int release() noexcept { return std::exchange(fd_, -1); }

  /// Closes the held descriptor and takes ownership of `fd`.
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

/// A pipe whose ends are close-on-exec and have numbers above those of the standard streams. Error(io) when the process
/// has no descriptors left.
Pipe make_pipe();

/// The same open file with a number above 2, close-on-exec. In a process that was started with a standard stream
/// closed, a new file could otherwise get the number of that stream.
UniqueFd above_standard_streams(UniqueFd fd);

}  // namespace lockstep
