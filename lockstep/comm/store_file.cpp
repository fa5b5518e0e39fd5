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
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::detail {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_read(const fs::path& path) {
  fail(ErrorKind::io, "connect", "cannot read the store file {}: {}", path.string(), std::strerror(errno));
}

/// While a rank writes, it holds the lock; it writes a record in several pieces. No descriptor: there is no file, as
/// the last rank of another job may take it away at any moment.
UniqueFd open_locked(const fs::path& path, int operation) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno != ENOENT) fail_to_read(path);
  while (fd && ::flock(fd.get(), operation) != 0 && errno == EINTR) {
  }
  return fd;
}

std::string read_all(const UniqueFd& fd, const fs::path& path) {
  struct stat info {};  // of what was opened: by its path it may be gone by now
  if (::fstat(fd.get(), &info) != 0) fail_to_read(path);
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

/// Takes one block, its length in 4 bytes before it; nullopt when there is no whole one.
std::optional<std::string_view> take_block(std::string_view& rest) {
  std::uint32_t length = 0;
  if (rest.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, rest.data(), sizeof length);
  rest.remove_prefix(sizeof length);
  if (length > rest.size()) return std::nullopt;
  const auto block = rest.substr(0, length);
  rest.remove_prefix(length);
  return block;
}

/// Keys and values in turn, of which a later one replaces an earlier. False: it is no such file.
bool read_records(std::string_view content, const std::function<void(std::string_view, std::string_view)>& take) {
  while (!content.empty()) {
    const auto key = take_block(content);
    const auto value = take_block(content);
    if (!key || !value) return false;
    take(*key, *value);
  }
  return true;
}

bool is_store(const fs::path& path) {
  const auto fd = open_locked(path, LOCK_SH);
  return !fd || read_records(read_all(fd, path), [](auto, auto) {});
}

}  // namespace

void require_store_file(const fs::path& path) {
  std::error_code ignored;
  if (path.has_parent_path() && !fs::is_directory(path.parent_path(), ignored)) {
    fail(ErrorKind::io, "connect", "the store file {} cannot be made: {} is not a folder", path.string(),
         path.parent_path().string());
  }
  if (!fs::exists(path, ignored)) return;
  if (fs::is_regular_file(path, ignored) && is_store(path)) return;
  fail(
      ErrorKind::io, "connect",
      "{} is not a file in which ranks met, or was damaged when a rank was killed; remove it, or name another path, on "
      "all ranks the same",
      path.string());
}

void remove_store_file(const fs::path& path, const std::string& key, const std::string& value) {
  const auto fd = open_locked(path, LOCK_EX);
  if (!fd) return;
  std::string found;
  const auto content = read_all(fd, path);
  read_records(content, [&](std::string_view name, std::string_view text) {
    if (name.size() == key.size() + 1 && name.ends_with(key)) found = text;  // c10d marks users' keys with a letter
  });
  std::error_code ignored;
  if (found == value) fs::remove(path, ignored);
}

}  // namespace lockstep::detail
