// The CUDA devices of this machine, for tests that need some. A forked process asks libtorch: who has asked can no
// longer fork.
#pragma once

#include <lockstep/comm/device/devices.h>

#include "support/forks.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep::test {

/// At most 100.
inline int devices_here() {
  static const int count = [] {
    const auto counted = fork_outcomes(1, {}, [](int) { std::_Exit(std::min(detail::cuda_devices().count, 100)); });
    return counted.front().status.code;
  }();
  return count;
}

#define SKIP_WITHOUT_DEVICE() \
  if (devices_here() < 1) GTEST_SKIP() << "needs a CUDA device, and this machine has none"

}  // namespace lockstep::test
