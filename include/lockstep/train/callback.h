// The interface of callbacks: objects that observe a run and cannot change it.
#pragma once

#include <lockstep/train/reports.h>

#include <memory>
#include <vector>

namespace lockstep::train {

/// Called on the training thread of each rank that has it. An exception ends the run on all ranks.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_step(const StepReport&) {}
  virtual void on_epoch_end(const EpochReport&) {}
  virtual void on_evaluation(const Evaluation&) {}
  virtual void on_end() {}
};

using Callbacks = std::vector<std::unique_ptr<Callback>>;

}  // namespace lockstep::train
