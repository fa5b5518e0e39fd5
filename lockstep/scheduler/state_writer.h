// The background writer of a scheduler's state, which never blocks the scheduler.
#pragma once

#include <lockstep/scheduler/state_place.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep::scheduler {

/// Saves on its own thread: a slow or unreachable disk or etcd does not delay the scheduler. Only the newest waiting
/// text is saved. After a failure it tries again every second, with a line in the log when that
/// begins and when it is over. Nothing throws: a failure to save must not end the job.
class StateWriter {
 public:
  explicit StateWriter(StatePlace place);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;
  /// Tries to save a waiting text once more.
  ~StateWriter();

  void put(std::string text);

  /// Waits until all texts are saved, at most for `limit`; returns whether they are.
  bool wait_for(std::chrono::milliseconds limit);

 private:
  void work(const std::stop_token& stop);
  bool save(const std::string& text);

  StatePlace place_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<std::string> waiting_;
  std::uint64_t put_ = 0;
  std::uint64_t saved_ = 0;
  bool failing_ = false;  ///< of the thread
  std::jthread thread_;   ///< last: it uses all of the above
};

}  // namespace lockstep::scheduler
