// The progress of a job's workers on a parameter server: for how many steps each worker has sent gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::parameter_servers {

/// Not thread-safe.
class WorkerClocks {
 public:
  /// All workers have completed `step` steps. A worker may be `most_ahead` steps ahead of the slowest unfinished
  /// worker.
  WorkerClocks(std::size_t workers, std::int64_t step, std::int64_t most_ahead)
      : completed_(workers, step), finished_(workers), most_ahead_(most_ahead) {}

  /// The gradients of this worker for its next step have arrived.
  void complete_step(std::size_t worker) { ++completed_[worker]; }
  /// The worker makes no further step, and no worker waits for it.
  void finish(std::size_t worker) { finished_[worker] = true; }

  /// Completed steps of one worker, and of the slowest of all.
  std::int64_t of(std::size_t worker) const { return completed_[worker]; }
  std::int64_t slowest() const { return *std::ranges::min_element(completed_); }

  /// The workers that must make progress before a worker with `step` completed steps may begin the next step.
  std::vector<std::size_t> awaited_to_begin(std::int64_t step) const {
    std::vector<std::size_t> awaited;
    for (std::size_t worker = 0; worker < completed_.size(); ++worker) {
      if (!finished_[worker] && step - completed_[worker] > most_ahead_) awaited.push_back(worker);
    }
    return awaited;
  }

  /// The workers that have not completed `step` steps.
  std::vector<std::size_t> behind(std::int64_t step) const {
    std::vector<std::size_t> behind;
    for (std::size_t worker = 0; worker < completed_.size(); ++worker) {
      if (completed_[worker] < step) behind.push_back(worker);
    }
    return behind;
  }

 private:
  std::vector<std::int64_t> completed_;
  std::vector<bool> finished_;
  std::int64_t most_ahead_;
};

}  // namespace lockstep::parameter_servers
