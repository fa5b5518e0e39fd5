// A training step without launch costs: forward, backward and update are recorded once as a CUDA graph, and each step
// is a single launch from then on.
//
//   lockstep::GraphedStep step(parallel, optimizer, [&](const std::vector<at::Tensor>& in) {
//     return torch::cross_entropy_loss(model->forward(in[0]), in[1]);
//   });
//   for (auto& batch : batches) auto loss = step.run({batch.data, batch.target});
#pragma once

#include <lockstep/mirrored/data_parallel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// Steps of a model on a CUDA device: gradients are removed, then loss, backward and lockstep::update (kernels/
/// optimizer_update.h). The first three steps run as written. The fourth is recorded, and runs as a graph like all that
/// follow. Results equal those of steps that are not recorded.
///
/// A recorded step may only contain work on the device with the shapes of the first inputs. It must not read a number
/// on the host (`item()`), copy from the CPU, or choose between branches by a value. If the recording fails, all steps
/// run as written, and `why_not_recorded` has the reason. Learning rates may change between steps (the optimizer's
/// options); its other settings must not change after the recording.
///
/// Not thread-safe. `parallel`, its module and `optimizer` must outlive it.
class GraphedStep {
 public:
  using Loss = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

  /// Error(invalid_argument) without parameters. `loss` gives a scalar; it is called for the first steps only, so it
  /// must not store inputs.
  GraphedStep(const DataParallel& parallel, torch::optim::Optimizer& optimizer, Loss loss);
  ~GraphedStep();
  GraphedStep(const GraphedStep&) = delete;
  GraphedStep& operator=(const GraphedStep&) = delete;

  /// One step with `inputs`, which are copied: from the device, or without waiting from pinned memory. Inputs of other
  /// shapes or dtypes than those recorded (a last, smaller batch) run as written. Returns the loss on the device, which
  /// the next step overwrites. Gradients are undefined afterwards.
  at::Tensor run(const std::vector<at::Tensor>& inputs);

  bool is_recorded() const;
  /// The reason why steps are not recorded, as text; nullopt before the recording, and after a successful one.
  const std::optional<std::string>& why_not_recorded() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
