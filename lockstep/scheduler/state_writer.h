// Saves a scheduler's state without holding up the scheduler.
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

/// Saves on a thread of its own: a disk or an etcd that is slow or away costs the scheduler nothing. Of texts that
/// wait, the newest alone counts. What could not be saved is tried again every second, with a word in the log when that
/// begins and when it is over. The job is worth more than its record: nothing throws.
class StateWriter {
 public:
  explicit StateWriter(StatePlace place);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;
  /// What waits is tried once more.
  ~StateWriter();

  void put(std::string text);

  /// Waits until all that was put is saved, at most for `limit`; whether it came to that.
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
