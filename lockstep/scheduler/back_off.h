// The back-off between attempts to connect.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace lockstep::scheduler {

/// From 0.1 s to 3 s, each time longer by half; randomly shortened, so that thousands do not connect at once.
class BackOff {
 public:
  std::chrono::milliseconds next() {
    const std::chrono::milliseconds longest = next_;
    next_ = std::min(next_ * 3 / 2, std::chrono::milliseconds(3000));
    return longest / 2 + std::chrono::milliseconds(random_() % static_cast<unsigned>(longest.count() / 2 + 1));
  }

 private:
  std::chrono::milliseconds next_{100};
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace lockstep::scheduler
