// Vectors with memory aligned to 64 bytes, the size of a cache line and of the widest vector register.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::data {

/// A stateless standard allocator. Throws std::bad_alloc when memory is exhausted. Thread-safe.
template <typename T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::size_t kAlignment = 64;

  AlignedAllocator() = default;
  template <typename U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) { return reinterpret_cast<T*>(std::allocator<Line>().allocate(lines(count))); }
  void deallocate(T* memory, std::size_t count) noexcept {
    std::allocator<Line>().deallocate(reinterpret_cast<Line*>(memory), lines(count));
  }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) noexcept { return true; }

 private:
  struct alignas(kAlignment) Line {
    std::array<std::byte, kAlignment> bytes;
  };

  static std::size_t lines(std::size_t count) { return (count * sizeof(T) + kAlignment - 1) / kAlignment; }
};

template <typename T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace lockstep::data
