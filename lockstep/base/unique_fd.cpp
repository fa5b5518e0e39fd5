// The owner of a file descriptor, and close-on-exec pipes whose ends lie above stdin, stdout and stderr.
#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace lockstep {

void UniqueFd::reset(int fd) noexcept {
  // Linux closes the descriptor even when close reports an error: never retry. Code that must detect write errors calls
  // fsync.
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail(ErrorKind::io, "pipe", "cannot make a pipe: {}", std::generic_category().message(errno));
  }
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  return {above_standard_streams(std::move(pipe.read_end)), above_standard_streams(std::move(pipe.write_end))};
}

UniqueFd above_standard_streams(UniqueFd fd) {
  if (fd.get() > STDERR_FILENO) return fd;
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!moved) {
    fail(ErrorKind::io, "file descriptor", "cannot duplicate {}: {}", fd.get(), std::generic_category().message(errno));
  }
  return moved;
}

}  // namespace lockstep
