#include <lockstep/global/distribute_module.h>
#include <lockstep/plan/measure/stopwatch.h>
#include <lockstep/plan/run/measured_layouts.h>

#include <torch/torch.h>

#include <algorithm>
#include <mutex>

namespace lockstep::plan {
namespace {

/// The host's generator goes on afterwards where it is now.
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

}  // namespace

Layout data_parallel_layout(const Group& group) {
  return {.mesh = Mesh(group, {group.size()}, {"data"}), .batch = {Shard(0)}, .parameters = {}};
}

KeptNumbers::KeptNumbers(torch::nn::Module& module) {
  const auto keep = [&](const at::Tensor& tensor) {
    const auto same = [&](const Kept& each) { return each.tensor.is_same(tensor); };
    if (!tensor.defined() || std::any_of(kept_.begin(), kept_.end(), same)) return;
    kept_.push_back({.tensor = tensor,
                     .before = at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
                         /*version_counter=*/0, /*allow_tensor_metadata_change=*/true))});
  };
  for (const auto& each : module.parameters()) keep(each);
  for (const auto& each : module.buffers()) keep(each);
}

void KeptNumbers::lay_out(torch::nn::Module& module, const Layout& layout) const {
  const Placements whole(layout.mesh.axes());
  const auto lay = [&](const std::string& name, const at::Tensor& tensor) {
    const auto same = [&](const Kept& each) { return each.tensor.is_same(tensor); };
    const auto kept = std::find_if(kept_.begin(), kept_.end(), same);
    if (kept == kept_.end()) return;
    tensor.unsafeGetTensorImpl()->shallow_copy_from(kept->before.getIntrusivePtr());
    const auto* placements = find_placements(layout.parameters, name);
    distribute_in_place(tensor, layout.mesh, placements != nullptr ? *placements : whole);
  };
  for (const auto& each : module.named_parameters()) lay(each.key(), each.value());
  for (const auto& each : module.named_buffers()) lay(each.key(), each.value());
}

double measured_step(const MeasuredStep& step, const Layout& layout, int steps) {
  const SameRandomNumbers scope;
  const torch::AutoGradMode with_gradients(true);
  std::vector<at::Tensor> batch;
  for (const auto& each : step.batch) batch.push_back(distribute(each, layout.mesh, layout.batch));
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
