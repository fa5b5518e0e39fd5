// One training step of stock libtorch code as a graph, without memory for its tensors.
#pragma once

#include <lockstep/plan/graph.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep::plan {

/// What comes with each batch: its first dimension is that of the (whole) batch.
struct ExampleInput {
  std::string name;
  std::vector<std::int64_t> sizes;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

/// The shapes and dtypes of tensors, called "input0", "input1", ...
std::vector<ExampleInput> examples_of(const std::vector<at::Tensor>& tensors);

struct StepProgram {
  torch::nn::Module* module = nullptr;  ///< whose parameters are trained
  std::vector<ExampleInput> inputs;
  /// Forward: from tensors of these shapes to a loss of one element.
  std::function<at::Tensor(const std::vector<at::Tensor>&)> loss;
  /// What is done with the gradients of these parameters before the optimizer's step, such as clipping; none: nothing.
  std::function<void(const std::vector<at::Tensor>&)> prepare_gradients = {};
  /// Of the module's parameters; none: the graph ends with the gradients.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> optimizer = {};
};

/// Runs forward, backward, `prepare_gradients` and the optimizer (its second step, when its state is there) on tensors
/// that have shapes and no memory, and returns what ran. The module is as before afterwards; its mode (train, eval)
/// counts. Which module an operator belongs to is told by the parameters it uses and, where it uses none, by where its
/// inputs come from (module_names.h).
///
/// Errors: unsupported, naming the operator, where the step reads numbers (`item()`, a condition) or makes a tensor
/// whose shape depends on numbers; invalid_argument where it mixes in ordinary tensors that are not registered with
/// the module, or the loss has several elements. Not thread-safe beside other uses of the module.
Graph trace_step(const StepProgram& program);

}  // namespace lockstep::plan
