// Measured comparison of several layouts of one module.
#pragma once

#include <lockstep/global/global_tensor.h>

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

/// The data-parallel layout: all ranks along one axis, the batch sharded, the model replicated.
Layout data_parallel_layout(const Group& group);

/// A copy of the values of a module's parameters and buffers, to restore them with other layouts.
class KeptNumbers {
 public:
  /// Copies the values. To be called before the module is distributed.
  explicit KeptNumbers(torch::nn::Module& module);

  /// Gives the module, which has been distributed since, the placements of `layout` and the saved values. A tensor with
  /// several names gets the placements of the first. Hooks on parameters and handles to them stay valid. A collective.
  void lay_out(const Layout& layout) const;

 private:
  struct Kept {
    std::string name;
    at::Tensor tensor;
    at::Tensor before;
  };
  std::vector<Kept> kept_;
};

/// A training step, as for trace_step(), on tensors with values.
struct MeasuredStep {
  torch::nn::Module* module = nullptr;  ///< distributed
  std::vector<at::Tensor> batch;        ///< the full batch of all ranks, as ordinary tensors
  std::function<at::Tensor(const std::vector<at::Tensor>&)> loss;
  std::function<void(const std::vector<at::Tensor>&)> prepare_gradients = {};
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> optimizer = {};
};

/// The seconds of a step of the module, which has this layout now, on the slowest rank: the median of `steps` steps
/// after a warm-up step. Changes the module's values, but restores the random generator. A collective.
double measured_step(const MeasuredStep& step, const Layout& layout, int steps);

}  // namespace lockstep::plan
