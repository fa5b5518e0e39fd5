// The pending operations of a job's groups in this process, and waits that advance all of them.
//
// Engines without a thread of their own (shm, hierarchy, mpi) move data only inside calls. Ranks may wait for
// operations of two groups in different orders, so a rank that waits for one operation meanwhile does its part in all
// others. An engine itself advances all operations of its own group.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::detail {

class Backend;
class WorkState;

/// The result of Backend::advance().
struct Progressed {
  bool unfinished = false;  ///< an operation is still pending
  bool moved = false;       ///< this call moved something
};

/// The pause between two checks of a wait. Short waits end soon; long waits leave the core to other processes,
/// especially to the ranks that are waited for.
class Pause {
 public:
  void restart() { *this = {}; }
  void take();

 private:
  int taken_ = 0;
  std::chrono::microseconds length_{10};
};

/// Thread-safe.
class Progress {
 public:
  /// Adds the backend of one more group.
  void add(std::weak_ptr<Backend> backend);

  /// Advances the pending operations of all backends except `own`, and except those that waits in `own` advance anyway.
  Progressed advance_others(const Backend& own);

  /// Waits for an operation of `own`, as WorkState::wait does, and meanwhile advances the pending operations of other
  /// backends.
  void wait(WorkState& work, Backend& own, std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Backend>> backends_;
};

}  // namespace lockstep::detail
