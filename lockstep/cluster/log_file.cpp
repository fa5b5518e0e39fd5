#include <lockstep/base/error.h>
#include <lockstep/cluster/log_file.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::cluster {

LogFile::LogFile(std::filesystem::path path) : path_(std::move(path)) {
  constexpr mode_t kReadableByAll = 0644;
  // Appending, so that whoever rotates logs may cut the file short.
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, kReadableByAll));
  if (!fd_) fail(ErrorKind::io, "launch", "cannot write the log {}: {}", path_.string(), std::strerror(errno));
  fd_ = above_standard_streams(std::move(fd_));
}

bool LogFile::append(std::string_view bytes) {
  while (fd_ && !bytes.empty()) {
    const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      failure_ = fmt::format("{}: {}", path_.string(), std::strerror(errno));
      fd_.reset();
    }
  }
  return bytes.empty();
}

std::optional<std::string> LogFile::take_failure() { return std::exchange(failure_, std::nullopt); }

}  // namespace lockstep::cluster
