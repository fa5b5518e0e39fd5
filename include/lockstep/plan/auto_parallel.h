// Automatic parallelization: distributes a program for one device over many, without placements written by hand.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep {

struct AutoParallelOptions {
  std::string cluster;  ///< YAML in the format of `lockstep calibrate`; empty: an estimate of this machine
  std::optional<std::int64_t> memory_bytes;  ///< limit for each rank; nullopt: the cluster's device memory
  std::vector<int> mesh;                     ///< sizes of the mesh's axes; empty: the fastest mesh
  ModulePlan parameters;                     ///< given placements that the plan keeps, one for each axis of `mesh`
  std::string plan_file;                     ///< read if it exists, else written; empty: no file
  /// Makes the optimizer that the program will use: its memory and time are part of the plan's cost.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> optimizer;
  /// The program's work on the gradients of these parameters before the optimizer's step, such as clipping: its time is
  /// part of the plan's cost. It must not read values of tensors (`item()`).
  std::function<void(const std::vector<at::Tensor>&)> prepare_gradients{};
  GradientReductionOptions gradients{};
  /// The number of steps of the plan and of plain data parallel that are measured (more when steps are short: half a
  /// second of each). The faster layout is used, so that a wrong prediction cannot make training slower than data
  /// parallel. If data parallel is faster, `mesh` and `parameters` are ignored; if it does not fit into memory, nothing
  /// is measured. `example` must have values that can be trained on (valid labels). The module's own values do not
  /// change; each rank holds them twice during the measurement. 0: no measurement.
  int verify_steps = 0;
};

struct AutoParallel {
  Mesh mesh;
  Placements batch;         ///< of each batch input: distribute(x, mesh, batch), or to_global() of a rank's part
  ModulePlan parameters;    ///< the placements of the module now
  std::string explanation;  ///< for people: the plan, its cost, and the alternatives
  std::vector<std::string> remarks;  ///< differences between the module and a plan from a file; measurements
};

/// Traces one step of the module, finds the fastest layout over the ranks of `group` that fits their memory, and
/// distributes the module with it, as distribute_module() does. Construct the optimizer after this call.
///
///     const auto loss_of = [&](const std::vector<at::Tensor>& in) { return torch::cross_entropy(net->forward(in[0]),
///     in[1]); }; const auto parallel = lockstep::auto_parallel(*net, group, {pictures, labels}, loss_of);
///     torch::optim::SGD sgd(net->parameters(), 0.1);
///     auto x = lockstep::distribute(pictures, parallel.mesh, parallel.batch);
///
/// `example` are tensors with the shapes of a full batch (of all ranks together); their values do not matter unless
/// options.verify_steps is above 0. A collective. Not thread-safe beside other uses of the module and the group.
/// Errors: unsupported, where the step reads values of tensors (`item()`, a condition), or where no layout fits into
/// memory (the message gives the missing bytes); invalid_argument for ordinary tensors that are not registered with the
/// module, a loss of several elements, and a mesh that does not have all ranks; mismatch when ranks have different
/// plans; those of distribute_module().
AutoParallel auto_parallel(torch::nn::Module& module, const Group& group, const std::vector<at::Tensor>& example,
                           const std::function<at::Tensor(const std::vector<at::Tensor>&)>& loss,
                           const AutoParallelOptions& options = {});

}  // namespace lockstep
