// The tracing of one training step of unchanged libtorch code to a graph, and the construction of modules for it, both
// without memory for tensors.
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

/// An input of the step: its first dimension is that of the full batch.
struct ExampleInput {
  std::string name;
  std::vector<std::int64_t> sizes;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

/// The shapes and dtypes of tensors, called "input0", "input1", ...
std::vector<ExampleInput> examples_of(const std::vector<at::Tensor>& tensors);

struct StepProgram {
  torch::nn::Module* module = nullptr;  ///< the module that is trained
  std::vector<ExampleInput> inputs;
  /// Forward: from tensors of these shapes to a loss of one element.
  std::function<at::Tensor(const std::vector<at::Tensor>&)> loss;
  /// The work on the gradients of these parameters before the optimizer's step, such as clipping; may be empty.
  std::function<void(const std::vector<at::Tensor>&)> prepare_gradients = {};
  /// Makes the optimizer of the module's parameters; empty: the graph ends with the gradients.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> optimizer = {};
};

/// Runs forward, backward, `prepare_gradients` and the optimizer (its second step, when its state exists) on tensors
/// that have shapes and no memory, and returns the executed operators. Afterwards the module is unchanged; its mode
/// (train, eval) is used. An operator belongs to the module whose parameters it uses; without parameters, to the module
/// of its inputs.
///
/// Errors: unsupported, naming the operator, where the step reads values of tensors (`item()`, a condition) or makes a
/// tensor whose shape depends on values; invalid_argument where it mixes in ordinary tensors that are not registered
/// with the module, or the loss has several elements. Not thread-safe beside other uses of the module.
Graph trace_step(const StepProgram& program);

/// While it exists, factories of this thread (torch::empty and similar, and so the constructors of modules) create
/// large tensors, from 64 KiB on, without memory. Such a module can only be traced:
///
///     const auto model = [] { WithoutMemory scope; return models::gpt({.layers = 96, .width = 12288}); }();
class WithoutMemory {
 public:
  WithoutMemory();
  ~WithoutMemory();
  WithoutMemory(const WithoutMemory&) = delete;
  WithoutMemory& operator=(const WithoutMemory&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A copy of the tensor object with the current content, which later changes of `tensor` do not affect.
at::Tensor snapshot(const at::Tensor& tensor);

/// Replaces the content of the tensor object by that of `other`, for all handles; its autograd state is kept.
void become(const at::Tensor& tensor, const at::Tensor& other);

}  // namespace lockstep::plan
