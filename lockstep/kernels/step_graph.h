// Kernels of a CUDA device that are recorded once and started together from then on (CUDA graphs): any work, and the
// update of an optimizer.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep::detail {

/// Why recording is not possible on `device`; nullopt if it is.
std::optional<std::string> why_no_graph(c10::Device device);

/// Runs `work` on a stream other than the program's current one, ordered before and after it: work that is recorded
/// later must not be on the default stream.
void on_side_stream(c10::Device device, const std::function<void()>& work);

/// Records the work that `work` puts on the current stream, without running it. Its allocations stay reserved until the
/// result is destroyed. The result runs the recorded work on the current stream, and returns at once. Throws the errors
/// of `work` and libtorch, for example if `work` waits for the device; nothing is recorded then. Errors as c10::Error.
std::function<void()> record_graph(c10::Device device, const std::function<void()>& work);

/// The values that change between two updates, as numbers on the device, so that the kernels can be recorded once
/// (mirrored/data_parallel.h).
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
