// The vote of ranks: numbers that they add up, and decisions that they make together.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::train {

/// Each is true for all ranks if it is for one of them.
struct StepVotes {
  bool end = false;   ///< because of a signal
  bool stop = false;  ///< this and the next two are requests of callbacks
  bool save = false;
  bool evaluate = false;
  bool overdue = false;  ///< checkpoint.every_seconds are over, by rank 0's clock
  bool writing = false;  ///< a checkpoint is still being written
};

/// One all_reduce, under way from construction on. A collective.
class Vote {
 public:
  /// `numbers` are added up.
  Vote(const StepVotes& own, const std::vector<double>& numbers, const Group& group);

  void wait() { work_.wait(); }
  /// After wait():
  StepVotes agreed() const;
  double sum(std::size_t number) const;

 private:
  at::Tensor sums_;
  Work work_;
};

}  // namespace lockstep::train
