// Measured comparison of several layouts of one module.
#pragma once

#include <lockstep/global/mesh.h>
#include <lockstep/global/module_plan.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep::plan {

/// The layout of a step: mesh, and placements of the batch and the parameters.
struct Layout {
  Mesh mesh;
  Placements batch;
  ModulePlan parameters;
};

/// All ranks along one axis, the batch divided, the model whole everywhere.
Layout data_parallel_layout(const Group& group);

/// The parameters and buffers of a module with the numbers that they had when this was made.
class KeptNumbers {
 public:
  /// Before the module is distributed.
  explicit KeptNumbers(torch::nn::Module& module);

  /// The module, which has been distributed since, lies as `layout` says and has those numbers again; a tensor of
  /// several names as under the first. What watches its parameters (hooks, who holds them) stays. A collective.
  void lay_out(const Layout& layout) const;

 private:
  struct Kept {
    std::string name;
    at::Tensor tensor;
    at::Tensor before;
  };
  std::vector<Kept> kept_;
};

/// A training step, as trace_step() takes it, of tensors with numbers.
struct MeasuredStep {
  torch::nn::Module* module = nullptr;  ///< distributed
  std::vector<at::Tensor> batch;        ///< ordinary tensors, those of all ranks
  std::function<at::Tensor(const std::vector<at::Tensor>&)> loss;
  std::function<void(const std::vector<at::Tensor>&)> prepare_gradients = {};
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> optimizer = {};
};

/// Seconds of a step of the module, which lies so now, on the slowest rank: the median of `steps` after a first.
/// Changes the module's numbers, but not what random numbers come next. A collective.
double measured_step(const MeasuredStep& step, const Layout& layout, int steps);

}  // namespace lockstep::plan
