// What makes forking without exec safe: that the calling thread is the only one. Internal to spawn.h.
#pragma once

#include <optional>

namespace lockstep::cluster {

/// Error(unsupported), naming the other threads of this process, unless there are none. Pools that end by themselves at
/// a fork, as OpenBLAS's does, are ended by it and do not count.
void require_lone_thread();

/// While alive, processes that are forked compute with one thread each, in the libraries that are loaded; the
/// destructor puts this process back as it was.
class OneThreadEach {
 public:
  OneThreadEach();
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;
  ~OneThreadEach();

 private:
  std::optional<int> openmp_;
  std::optional<int> openblas_;
};

}  // namespace lockstep::cluster
