// One call of poll() for several descriptors, each with a callback for when it is ready.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <vector>

namespace lockstep::cluster {

class Poller {
 public:
  /// `ready` runs when `fd` shows one of `events`, has no writer or reader left, or is broken.
  void add(int fd, short events, std::function<void()> ready);

  /// Waits at most `limit` for the first of them, runs what is ready, in the order of `add`. Error(io) when poll fails.
  void wait(std::chrono::milliseconds limit);

 private:
  std::vector<pollfd> fds_;
  std::vector<std::function<void()>> ready_;
};

}  // namespace lockstep::cluster
