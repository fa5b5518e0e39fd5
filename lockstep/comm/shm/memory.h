// Memory shared between processes: anonymous files, which disappear with the last process that has them open or mapped.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace lockstep::shm {

inline constexpr std::size_t kPage = 4096;

/// The smallest multiple of `unit` that is not below `value`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// A mapped range; unmapped by the destructor.
class Mapping {
 public:
  Mapping() = default;
  /// Maps [offset, offset + bytes) of `fd` for reading and writing, at an address that is a multiple of `alignment` (a
  /// power of two, at least a page). Error(io) when the address space is too small.
  Mapping(int fd, std::uint64_t offset, std::size_t bytes, std::size_t alignment = kPage);
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A memory file without a name, of `bytes` zeros that take no memory until they are accessed. It is not part of
/// /dev/shm, and its only limit is the memory of the machine. Error(unsupported) where the kernel has no memfd_create.
UniqueFd make_memory_file(const std::string& label, std::uint64_t bytes);

/// Allocates real memory for [offset, offset + bytes) of the file now, and grows the file if necessary, so that a lack
/// of memory is an error here and not a signal later. Returns 0 or an errno.
int commit(int fd, std::uint64_t offset, std::size_t bytes) noexcept;

/// Returns this memory to the system; the range reads as zeros afterwards.
void release(int fd, std::uint64_t offset, std::size_t bytes) noexcept;

inline constexpr std::size_t kHugePage = 2 << 20;

/// Sets up the page tables of committed memory in advance, with huge pages where the kernel and the range allow it.
/// Only an optimization: does nothing where this is not possible.
void prepare(std::byte* data, std::size_t bytes) noexcept;

}  // namespace lockstep::shm
