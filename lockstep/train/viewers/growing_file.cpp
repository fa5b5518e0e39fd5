// Buffered appends by write(2), with ftruncate to the last whole record when a write fails.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/train/viewers/growing_file.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lockstep::train {

GrowingFile::GrowingFile(UniqueFd fd, std::filesystem::path path, std::string where)
    : fd_(std::move(fd)), path_(std::move(path)), where_(std::move(where)) {
  struct stat now {};
  if (::fstat(fd_.get(), &now) == 0 && S_ISREG(now.st_mode)) written_ = static_cast<std::uint64_t>(now.st_size);
}

GrowingFile::~GrowingFile() { write_all(); }

void GrowingFile::add(std::string_view record) {
  constexpr std::size_t kEnough = std::size_t{64} << 10;
  waiting_ += record;
  if (waiting_.size() >= kEnough) flush();
}

void GrowingFile::flush() {
  const int error = write_all();
  if (error != 0) {
    fail(ErrorKind::io, where_, "cannot write {}: {}", path_.string(), disk_reason(error, path_));
  }
}

// The errno of the failed call, or 0.
int GrowingFile::write_all() noexcept {
  std::string_view rest = waiting_;
  int error = 0;
  while (!rest.empty() && error == 0) {
    const ssize_t count = ::write(fd_.get(), rest.data(), rest.size());
    if (count > 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      error = count == 0 ? ENOSPC : errno;
    }
  }
  // Half a record would hide all later records.
  const bool cut = error != 0 && ::ftruncate(fd_.get(), static_cast<off_t>(written_)) == 0;
  if (error == 0) written_ += waiting_.size();
  if (error != 0 && !cut) fd_.reset();  // so that no record follows it: each later write fails
  waiting_.clear();
  return error;
}

}  // namespace lockstep::train
