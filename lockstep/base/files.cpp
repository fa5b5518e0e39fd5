// Whole files: reading through an input stream; writing to a hidden temporary file beside the target, which is locked,
// written, synced and renamed. Streams are written in place.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// Temporaries are hidden files ".<name>.<random>.lockstep-tmp".
constexpr std::string_view kSuffix = ".lockstep-tmp";

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  constexpr std::size_t kRoomForName = 200;  // leaves room in a file name, which may have 255 bytes
  const std::string name = path.filename().string().substr(0, kRoomForName);
  return folder_of(path) / fmt::format(".{}.{:08x}{}", name, std::random_device{}(), kSuffix);
}

// Not mkstemp: it would give mode 0600, and the umask cannot be read without changing it for all threads.
UniqueFd open_new(const std::filesystem::path& path) {
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

/// The path, with links followed repeatedly; the target of the last link is replaced.
std::vector<std::filesystem::path> links_from(std::filesystem::path path) {
  constexpr std::size_t kMostLinks = 40;
  std::vector<std::filesystem::path> all{std::move(path)};
  std::error_code none;
  while (all.size() <= kMostLinks && std::filesystem::is_symlink(all.back(), none)) {
    const auto next = std::filesystem::read_symlink(all.back(), none);
    all.push_back(next.is_absolute() ? next : folder_of(all.back()) / next);
  }
  return all;
}

/// A name in /proc/self/fd, the target of the links /dev/stdout and /dev/fd.
bool is_open_file(const std::filesystem::path& path) {
  std::error_code none;
  const auto folder = std::filesystem::canonical(folder_of(path), none).string();
  return folder.starts_with("/proc/") && folder.ends_with("/fd");
}

bool is_stream_by(const std::vector<std::filesystem::path>& links) {
  if (std::ranges::any_of(links, is_open_file)) return true;
  std::error_code none;
  const auto status = std::filesystem::status(links.back(), none);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

int sync_folder(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno;
  // Some network file systems cannot sync a folder and return EINVAL; that is not an error here.
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? 0 : errno;
}

bool is_abandoned(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

bool is_stream(const std::filesystem::path& path) { return is_stream_by(links_from(path)); }

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  auto links = links_from(path_);
  if (is_stream_by(links)) {
    in_place_ = true;
    // A pipe without a reader is an error and does not block; for a slow reader this waits.
    fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!fd_ || ::fcntl(fd_.get(), F_SETFL, O_APPEND) != 0) give_up("open", errno, 0);
    return;
  }
  path_ = std::move(links.back());
  constexpr int kTries = 100;
  int error = 0;
  for (int i = 0; i < kTries && !fd_; ++i) {
    temporary_ = temporary_name(path_);
    fd_ = open_new(temporary_);
    error = errno;
    if (error != EEXIST) break;
  }
  if (!fd_) give_up("create", error, 0);
  // The lock shows remove_abandoned_temporaries that the writer still runs. Failure is ignored: some file systems do
  // not support locks.
  ::flock(fd_.get(), LOCK_EX | LOCK_NB);
}

AtomicFile::~AtomicFile() { remove_temporary(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  const std::uint64_t wanted = written_ + bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) give_up("write", count == 0 ? ENOSPC : errno, wanted);
    written_ += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  if (in_place_) return fd_.reset();
  if (::fsync(fd_.get()) != 0) give_up("sync", errno, written_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) give_up("rename", errno, written_);
  temporary_.clear();
  fd_.reset();
  if (const int error = sync_folder(folder_of(path_))) give_up("sync the folder of", error, written_);
}

void AtomicFile::give_up(std::string_view step, int error, std::uint64_t wanted) {
  const std::uint64_t written = written_;
  // Get the reason before the temporary is removed: afterwards the disk may no longer be full.
  const std::string why = disk_reason(error, path_);
  remove_temporary();
  fail(ErrorKind::io, "file", "cannot {} {} ({} of {} bytes written): {}", step, path_.string(), written, wanted, why);
}

void AtomicFile::remove_temporary() noexcept {
  if (fd_ && !temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  fd_.reset();
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

std::size_t remove_abandoned_temporaries(const std::filesystem::path& folder) {
  std::error_code error;
  std::size_t removed = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') || !name.ends_with(kSuffix) || !is_abandoned(entry->path())) continue;
    std::error_code failed;
    if (std::filesystem::remove(entry->path(), failed)) ++removed;
  }
  return removed;
}

void require_writable_file(const std::filesystem::path& path, std::string_view flag) {
  if (is_stream(path)) return;  // opening a pipe may wait for its reader
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) {
    fail(ErrorKind::invalid_argument, flag, "{} is a folder; give the name of a file", path.string());
  }
  if (const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
      !std::filesystem::is_directory(folder, failed)) {
    fail(ErrorKind::invalid_argument, flag, "{} cannot be written: {} {}; give another path", path.string(),
         folder.string(), std::filesystem::exists(folder, failed) ? "is not a folder" : "does not exist");
  }
  try {
    const AtomicFile probe(path);
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid_argument, flag, error.message());
  }
}

std::string disk_reason(int error, const std::filesystem::path& path) {
  std::string text = std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) {
    std::error_code failed;
    const auto space = std::filesystem::space(path.has_parent_path() ? path.parent_path() : ".", failed);
    text = error == ENOSPC ? "the disk is full" : "the disk quota is used up";
    if (!failed) text += fmt::format(" ({} bytes free)", space.available);
    text += "; make room or choose another folder";
  }
  return text;
}

std::optional<std::string> read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (in.bad() || text.bad()) return std::nullopt;
  return std::move(text).str();
}

}  // namespace lockstep
