// Training steps on a module's saved numbers in several layouts, with the same random numbers in each.
#include <lockstep/global/global_tensor.h>
#include <lockstep/plan/measure/measure.h>
#include <lockstep/plan/run/measured_layouts.h>
#include <lockstep/plan/trace/trace_step.h>

#include <torch/torch.h>

#include <algorithm>
#include <mutex>

namespace lockstep::plan {
namespace {

/// Restores the state of the CPU generator at the end of the scope.
class SameRandomNumbers {
 public:
  SameRandomNumbers() {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~SameRandomNumbers() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SameRandomNumbers(const SameRandomNumbers&) = delete;
  SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor state_;
};

std::vector<at::Tensor> trained(const torch::nn::Module& module) {
  auto parameters = module.parameters();
  std::erase_if(parameters, [](const at::Tensor& each) { return !each.requires_grad(); });
  return parameters;
}

/// The placements of an input, as in the planner: inputs that are too small to be sharded are replicated.
Placements placements_of_input(const at::Tensor& input, const Layout& layout) {
  auto placements = layout.batch;
  for (auto& each : placements) {
    if (each.is_shard() && (input.dim() <= each.dim || input.size(each.dim) < 2)) each = Replicate();
  }
  return placements;
}

}  // namespace

Layout data_parallel_layout(const Group& group) {
  return {.mesh = Mesh(group, {group.size()}, {"data"}), .batch = {Shard(0)}, .parameters = {}};
}

KeptNumbers::KeptNumbers(torch::nn::Module& module) {
  const auto keep = [&](const std::string& name, const at::Tensor& tensor) {
    const auto same = [&](const Kept& each) { return each.tensor.is_same(tensor); };
    if (!tensor.defined() || std::any_of(kept_.begin(), kept_.end(), same)) return;
    kept_.push_back({.name = name, .tensor = tensor, .before = snapshot(tensor)});
  };
  for (const auto& each : module.named_parameters()) keep(each.key(), each.value());
  for (const auto& each : module.named_buffers()) keep(each.key(), each.value());
}

void KeptNumbers::lay_out(const Layout& layout) const {
  const Placements whole(layout.mesh.axes());
  for (const auto& each : kept_) {
    become(each.tensor, each.before);
    const auto* placements = find_placements(layout.parameters, each.name);
    distribute_in_place(each.tensor, layout.mesh, placements != nullptr ? *placements : whole);
  }
}

double measured_step(const MeasuredStep& step, const Layout& layout, int steps) {
  const SameRandomNumbers scope;
  const torch::AutoGradMode with_gradients(true);
  const MeshScope factories_here(layout.mesh);
  std::vector<at::Tensor> batch;
  for (const auto& each : step.batch) batch.push_back(distribute(each, layout.mesh, placements_of_input(each, layout)));
  const auto parameters = trained(*step.module);
  const auto optimizer = step.optimizer ? step.optimizer(parameters) : nullptr;
  return seconds_together(layout.mesh.group(), steps, [&] {
    step.module->zero_grad(/*set_to_none=*/true);
    step.loss(batch).backward();
    if (step.prepare_gradients) step.prepare_gradients(parameters);
    if (optimizer) optimizer->step();
  });
}

}  // namespace lockstep::plan
