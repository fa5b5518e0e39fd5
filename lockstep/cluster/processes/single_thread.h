// Checks that the calling thread is the only one, which forking without exec requires. Internal to spawn.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// The names of the other threads of this process. Ends pools that stop at a fork, such as OpenBLAS's, and does not
/// count them.
std::vector<std::string> other_threads();

/// Error(unsupported), naming the other threads of this process, unless there are none.
void require_single_thread();

/// While it exists, forked processes compute with one thread each in the loaded libraries; the destructor restores the
/// settings of this process.
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
