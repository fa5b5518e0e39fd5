// How far the workers of a job have come, as a parameter server sees it: for how many steps each has sent gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::parameter_servers {

/// Not thread-safe.
class WorkerClocks {
 public:
  /// All have completed `step` steps. A worker may be `most_ahead` steps ahead of the slowest that has not finished.
  WorkerClocks(std::size_t workers, std::int64_t step, std::int64_t most_ahead);

  /// Gradients of this worker for its next step are here.
  void complete_step(std::size_t worker) { ++completed_[worker]; }
  /// It makes no further step, and nobody waits for it.
  void finish(std::size_t worker) { finished_[worker] = true; }

  /// Completed steps of one worker, and of the slowest of all.
  std::int64_t of(std::size_t worker) const { return completed_[worker]; }
  std::int64_t slowest() const;

  /// The workers that have to go on before one that has completed `step` steps may begin another.
  std::vector<std::size_t> awaited_to_begin(std::int64_t step) const;

  /// The workers that have not completed `step` steps.
  std::vector<std::size_t> behind(std::int64_t step) const;

 private:
  std::vector<std::int64_t> completed_;
  std::vector<bool> finished_;
  std::int64_t most_ahead_;
};

}  // namespace lockstep::parameter_servers
