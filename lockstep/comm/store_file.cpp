#include <lockstep/comm/store_file.h>

#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lockstep::detail {
namespace {

namespace fs = std::filesystem;

/// While a rank writes, it holds the lock; it writes a record in several pieces.
std::string read_locked(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return {};  // the last rank of another job took it away just now
  if (!fd) fail(ErrorKind::io, "connect", "cannot read the store file {}: {}", path.string(), std::strerror(errno));
  while (::flock(fd.get(), LOCK_SH) != 0 && errno == EINTR) {
  }
  struct stat info {};  // of what was opened: by its path it may be gone by now
  if (::fstat(fd.get(), &info) != 0) {
    fail(ErrorKind::io, "connect", "cannot read the store file {}: {}", path.string(), std::strerror(errno));
  }
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t count = ::read(fd.get(), content.data() + size, content.size() - size);
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) size += static_cast<std::size_t>(count);
  }
  content.resize(size);
  return content;
}

/// Takes one block, its length in 4 bytes before it; false when there is no whole one.
bool take_block(std::string_view& rest) {
  std::uint32_t length = 0;
  if (rest.size() < sizeof length) return false;
  std::memcpy(&length, rest.data(), sizeof length);
  rest.remove_prefix(sizeof length);
  if (length > rest.size()) return false;
  rest.remove_prefix(length);
  return true;
}

/// Keys and values in turn.
bool is_store(std::string_view content) {
  while (!content.empty()) {
    if (!take_block(content)) return false;
    if (!take_block(content)) return false;
  }
  return true;
}

}  // namespace

void require_store_file(const fs::path& path) {
  std::error_code ignored;
  if (path.has_parent_path() && !fs::is_directory(path.parent_path(), ignored)) {
    fail(ErrorKind::io, "connect", "the store file {} cannot be made: {} is not a folder", path.string(),
         path.parent_path().string());
  }
  if (!fs::exists(path, ignored)) return;
  if (fs::is_regular_file(path, ignored) && is_store(read_locked(path))) return;
  fail(
      ErrorKind::io, "connect",
      "{} is not a file in which ranks met, or was damaged when a rank was killed; remove it, or name another path, on "
      "all ranks the same",
      path.string());
}

}  // namespace lockstep::detail
