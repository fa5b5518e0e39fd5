// Random choices of a simulated life: each concern has a stream of its own, so that one more draw in one of them does
// not change the others. No distribution of the standard library, whose numbers differ between compilers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::simulation {

using std::chrono::milliseconds;

/// SplitMix64 (Steele, Lea, Flood 2014).
class Chance {
 public:
  Chance(std::uint64_t seed, std::uint64_t stream) : state_(mixed(seed) ^ mixed(stream * 0x9e3779b97f4a7c15U + 1)) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    return mixed(state_);
  }
  /// From 0 to n - 1.
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  /// Both ends included.
  int from_to(int low, int high) { return low + below(high - low + 1); }
  bool happens(int per_mille) { return below(1000) < per_mille; }
  /// Between the two, short times as frequent as long ones: the logarithm is even, in steps of a factor of two.
  milliseconds time(milliseconds low, milliseconds high) {
    auto top = low.count() + 1;
    while (top < high.count() && happens(750)) top *= 2;
    return milliseconds(low.count() +
                        static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(top - low.count() + 1)));
  }
  std::string token() {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text(16, ' ');
    auto bits = next();
    for (auto& c : text) {
      c = kDigits[bits & 15U];
      bits >>= 4U;
    }
    return text;
  }

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
  }

  std::uint64_t state_;
};

}  // namespace lockstep::simulation
