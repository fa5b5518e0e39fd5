// What the groups of a job have under way in this process, and waits that advance all of it.
//
// Engines without a thread of their own (shm, hierarchy, mpi) move data only inside calls. Ranks may wait for
// operations of two groups in different orders, so a rank that waits for one takes its part in all others meanwhile. An
// engine itself advances all operations of its own group.
#pragma once

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::detail {

class Backend;
class WorkState;

/// What came of Backend::advance().
struct Progressed {
  bool unfinished = false;  ///< something is under way still
  bool moved = false;       ///< some of it moved now
};

/// Between two looks at what is waited for: short waits end soon, long ones leave the core to others, above all to the
/// ranks that are waited for.
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
  /// One more group has this backend.
  void add(std::weak_ptr<Backend> backend);

  /// Advances what all backends but `own` have under way, and those that waits in `own` advance anyhow.
  Progressed advance_others(const Backend& own);

  /// Waits for an operation of `own`, as WorkState::wait does, and advances what the others have under way by then.
  void wait(WorkState& work, Backend& own, std::chrono::milliseconds timeout);

  /// The same around a call of `own` that has no state to test while it waits: it runs on a thread of its own.
  template <typename Call>
  auto run_beside(const Backend& own, const Call& call) {
    if (!advance_others(own).unfinished) return call();
    auto result = std::async(std::launch::async, call);
    for (Pause pause; result.wait_for(std::chrono::seconds(0)) != std::future_status::ready; pause.take()) {
      if (advance_others(own).moved) pause.restart();
    }
    return result.get();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Backend>> backends_;
};

}  // namespace lockstep::detail
