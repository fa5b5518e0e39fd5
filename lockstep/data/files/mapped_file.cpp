// A read-only, shared mmap of a regular file; an empty file is not mapped.
#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/data/files/mapped_file.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep::data {

MappedFile::MappedFile(const std::filesystem::path& file, std::string_view key) : name_(file.string()) {
  const UniqueFd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const int reason = errno;
  if (!opened && (reason == ENOENT || reason == ENOTDIR)) {
    fail(ErrorKind::config, key, "there is no file {}", name_);
  }
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0) {
    fail(ErrorKind::io, key, "cannot read {}: {}", name_, std::generic_category().message(opened ? errno : reason));
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorKind::config, key, "{} is {}; give a file", name_,
         S_ISDIR(status.st_mode) ? "a folder" : "no regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // nothing to map
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, opened.get(), 0);
  if (memory == MAP_FAILED) {
    fail(ErrorKind::io, key, "cannot map {}: {}", name_, std::generic_category().message(errno));
  }
  bytes_ = static_cast<const std::uint8_t*>(memory);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : name_(std::move(other.name_)),
      bytes_(std::exchange(other.bytes_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_ != nullptr) ::munmap(const_cast<std::uint8_t*>(bytes_), size_);
}

}  // namespace lockstep::data
