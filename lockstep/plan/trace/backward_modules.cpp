#include <lockstep/global/tensor_state.h>
#include <lockstep/plan/trace/backward_modules.h>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_set>
#include <vector>

namespace lockstep::plan {
namespace {

class Enter final : public torch::autograd::FunctionPreHook {
 public:
  Enter(std::shared_ptr<StepRecorder> recorder, std::string module)
      : recorder_(std::move(recorder)), module_(std::move(module)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    recorder_->enter(module_);
    return gradients;
  }

 private:
  std::shared_ptr<StepRecorder> recorder_;
  std::string module_;
};

std::string module_of(const torch::autograd::Node& node, const StepRecorder& recorder) {
  if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node)) {
    const auto value = global::state_of(leaf->variable).traced;
    return value == global::kNotTraced ? std::string() : recorder.module_of_value(value);
  }
  return recorder.module_of_sequence(node.sequence_nr());
}

}  // namespace

void follow_backward(const at::Tensor& loss, const std::shared_ptr<StepRecorder>& recorder) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    node->add_pre_hook(std::make_unique<Enter>(recorder, module_of(*node, *recorder)));
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
}

}  // namespace lockstep::plan
