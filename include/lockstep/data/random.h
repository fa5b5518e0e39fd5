// Random numbers as a pure function of a key. No state is carried from one sample to the next, so the number of
// threads, the world size and resumption do not change them.
//
// Generator: SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014), started from a
// hash of the key. Only integer arithmetic, so the numbers are the same with every compiler and standard library.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace lockstep::data {

/// The use of the numbers; the first part of every key, so that two uses never share a sequence.
enum class RandomPurpose : std::uint64_t { order = 1, transform = 2, synthesize = 3, named_step = 4, text = 5 };

/// The output function of SplitMix64: a bijection in which every input bit moves about half of the output bits.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, RandomPurpose purpose, std::initializer_list<std::uint64_t> key) noexcept
      : state_(mix64(seed + kIncrement)) {
    absorb(static_cast<std::uint64_t>(purpose));
    for (const std::uint64_t part : key) absorb(part);
  }

  constexpr std::uint64_t next() noexcept {
    state_ += kIncrement;
    return mix64(state_);
  }

  /// Uniform in [0, bound), without bias (Lemire: "Fast Random Integer Generation in an Interval", 2019). bound >= 1.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    Wide product = static_cast<Wide>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>(next()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Uniform in [low, high).
  constexpr double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15ULL;

  constexpr void absorb(std::uint64_t part) noexcept { state_ = mix64(state_ ^ mix64(part + kIncrement)); }

  std::uint64_t state_;
};

}  // namespace lockstep::data
