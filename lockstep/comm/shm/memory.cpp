// Shared memory by memfd_create: aligned mappings, pages committed and released by fallocate, huge pages by madvise.
#include <lockstep/base/error.h>
#include <lockstep/comm/shm/memory.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace lockstep::shm {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// Newer than the headers of some systems on which Lockstep runs.
constexpr int kMadvisePopulateWrite = 23;
constexpr int kMadviseCollapse = 25;

}  // namespace

Mapping::Mapping(int fd, std::uint64_t offset, std::size_t bytes, std::size_t alignment) : bytes_(bytes) {
  // Reserve more than needed, map over the aligned part, and unmap the rest.
  const std::size_t reserved = bytes + alignment;
  void* const room = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    fail(ErrorKind::io, "shm", "cannot reserve {} bytes of addresses: {}; is `ulimit -v` too low?", reserved,
         reason(errno));
  }
  auto* const start = static_cast<std::byte*>(room);
  const auto address = reinterpret_cast<std::uintptr_t>(room);
  const std::size_t before = (alignment - address % alignment) % alignment;
  const int flags = MAP_SHARED | MAP_FIXED;
  if (::mmap(start + before, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset)) == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, reserved);
    fail(ErrorKind::io, "shm", "cannot map {} bytes of shared memory: {}", bytes, reason(error));
  }
  if (before > 0) ::munmap(start, before);
  const std::size_t end = (before + bytes + 4095) / 4096 * 4096;
  if (end < reserved) ::munmap(start + end, reserved - end);
  data_ = start + before;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

UniqueFd make_memory_file(const std::string& label, std::uint64_t bytes) {
  UniqueFd fd(::memfd_create(label.c_str(), MFD_CLOEXEC));
  if (!fd) {
    fail(ErrorKind::unsupported, "shm", "cannot make shared memory (memfd_create): {}; use backend tcp", reason(errno));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    fail(ErrorKind::io, "shm", "cannot make {} bytes of shared memory: {}", bytes, reason(errno));
  }
  return fd;
}

int commit(int fd, std::uint64_t offset, std::size_t bytes) noexcept {
  for (;;) {
    if (::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

void release(int fd, std::uint64_t offset, std::size_t bytes) noexcept {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (::fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0 && errno == EINTR) {
  }
}

void prepare(std::byte* data, std::size_t bytes) noexcept {
  if (bytes >= kHugePage && ::madvise(data, bytes, kMadviseCollapse) == 0) return;
  (void)::madvise(data, bytes, kMadvisePopulateWrite);
}

}  // namespace lockstep::shm
