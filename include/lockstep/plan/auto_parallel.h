// Automatic parallelization: makes a program for one device one for many, without placements written by hand.
#pragma once

#include <lockstep/global/distribute_module.h>
#include <lockstep/global/mesh.h>
#include <lockstep/global/module_plan.h>

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
  std::string cluster;                       ///< YAML as `lockstep calibrate` writes it; empty: a guess at this machine
  std::optional<std::int64_t> memory_bytes;  ///< that a rank may take; none: the cluster's device memory
  std::vector<int> mesh;                     ///< sizes of the mesh's axes; empty: what is fastest
  ModulePlan parameters;                     ///< given placements that the plan keeps, one for each axis of `mesh`
  std::string plan_file;                     ///< used if it exists, else written; empty: none
  /// Makes the optimizer that the program will use: its memory and time count.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> optimizer;
  /// The program's work on the gradients of these parameters before the optimizer's step, such as clipping: its
  /// time counts. It must not read numbers.
  std::function<void(const std::vector<at::Tensor>&)> prepare_gradients{};
  GradientReductionOptions gradients{};
  /// So many steps of the plan and of plain data parallel are measured (short ones for half a second), and the faster
  /// is kept: then whatever the prediction is wrong about, nothing is slower than data parallel. Where that wins,
  /// `mesh` and `parameters` no longer hold; where it does not fit into memory, nothing is measured. `example` must
  /// have numbers that can be trained on (labels that exist); the module's own numbers stay as they are, and each rank
  /// holds them twice meanwhile. 0: not measured.
  int verify_steps = 0;
};

struct AutoParallel {
  Mesh mesh;
  Placements batch;         ///< of each input with a batch: distribute(x, mesh, batch), or to_global() of a rank's part
  ModulePlan parameters;    ///< the placements of the module now
  std::string explanation;  ///< for people: the plan, its cost, and the alternatives
  std::vector<std::string> remarks;  ///< where a plan from a file no longer fits the module; what was measured
};

/// Traces one step of the module, finds the fastest layout over the ranks of `group` that fits their memory,
/// and distributes the module with it, as distribute_module() does. Construct the optimizer afterwards.
///
///     const auto loss_of = [&](const std::vector<at::Tensor>& in) { return torch::cross_entropy(net->forward(in[0]),
///     in[1]); }; const auto parallel = lockstep::auto_parallel(*net, group, {pictures, labels}, loss_of);
///     torch::optim::SGD sgd(net->parameters(), 0.1);
///     auto x = lockstep::distribute(pictures, parallel.mesh, parallel.batch);
///
/// `example` are tensors of the shapes of a whole batch (that of all ranks); their numbers do not matter, unless
/// options.verify_steps says so. A collective.
/// Not thread-safe beside other uses of the module and the group. Errors: unsupported, where the step reads numbers
/// (`item()`, a condition) or nothing fits into memory (how much is missing); invalid_argument for ordinary tensors
/// that are not registered with the module, a loss of several elements, and a mesh that is not all ranks; mismatch when
/// ranks would follow different plans; those of distribute_module().
AutoParallel auto_parallel(torch::nn::Module& module, const Group& group, const std::vector<at::Tensor>& example,
                           const std::function<at::Tensor(const std::vector<at::Tensor>&)>& loss,
                           const AutoParallelOptions& options = {});

}  // namespace lockstep
