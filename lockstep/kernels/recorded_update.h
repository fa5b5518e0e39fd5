// The update of an optimizer whose kernels are recorded once and then run again (kernels/step_graph.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep::detail {

/// The values that change between two updates, as numbers on the device, so that the kernels can be recorded once
/// (graphed_step.h).
class RecordedUpdate {
 public:
  /// `optimizer` must have no reason against a fused update, must have been updated before, and must outlive this
  /// object.
  explicit RecordedUpdate(torch::optim::Optimizer& optimizer);

  /// Reads the learning rates from the optimizer's options. On the current stream; must not be recorded.
  void take_rates();
  /// Puts the update on the current stream. It updates the parameters that had a gradient at the first call. The
  /// other settings must not change.
  void run();
  /// Counts an executed update in the state that is saved. On the host only.
  void count();
  /// Called after the optimizer was updated once in another way.
  void follow_other();

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<double> rates_;
  std::vector<at::Tensor> rates_on_device_;  ///< by parameter group
  at::Tensor steps_;                         ///< Adam's number of updates so far
  std::vector<at::Tensor> updated_;          ///< noted by run()
};

}  // namespace lockstep::detail
