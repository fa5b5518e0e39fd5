// A walk over the autograd graph of a loss for leaves that are not parameters of the module.
#include <lockstep/train/modes/stray_tensors.h>

#include <lockstep/base/error.h>
#include <lockstep/train/keys/tensor_text.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/torch.h>

#include <unordered_set>
#include <vector>

namespace lockstep::train {
namespace {

/// The tensors at the ends of the loss's graph, which get gradients.
std::vector<at::Tensor> leaves_of(const at::Tensor& loss) {
  std::vector<at::Tensor> leaves;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  std::unordered_set<torch::autograd::Node*> seen;
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (const auto* end = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) leaves.push_back(end->variable);
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return leaves;
}

}  // namespace

std::string describe_stray_tensors(const at::Tensor& loss, const torch::nn::Module& module, std::int64_t samples) {
  constexpr std::size_t kShown = 5;
  std::unordered_set<const c10::TensorImpl*> known;
  for (const auto& parameter : module.parameters()) known.insert(parameter.unsafeGetTensorImpl());
  std::vector<std::string> strays;
  std::size_t count = 0;
  for (const auto& leaf : leaves_of(loss)) {
    if (known.contains(leaf.unsafeGetTensorImpl()) || (leaf.dim() > 0 && leaf.size(0) == samples)) continue;
    if (++count <= kShown) strays.push_back(dtype_and_sizes(leaf));
  }
  if (count > kShown) strays.emplace_back("...");
  const auto words = fmt::format(
      "the loss has gradients for {} {} that {} of the model: {}. Register layers with register_module(), and tensors "
      "with register_parameter(), in the constructor of the module",
      count, count == 1 ? "tensor" : "tensors", count == 1 ? "is no parameter" : "are no parameters",
      fmt::join(strays, ", "));
  if (known.empty()) {
    fail(ErrorKind::invalid_argument, "train", "the model has no parameters, so there is nothing to train{}{}",
         count > 0 ? ": " : "", count > 0 ? words : "");
  }
  return count > 0 ? words : "";
}

}  // namespace lockstep::train
