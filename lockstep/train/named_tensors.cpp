// The state of a module as named tensors: collection, comparison, copy back.
#include <lockstep/base/error.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

namespace lockstep::train {
namespace {

void append(NamedTensors& out, const torch::OrderedDict<std::string, at::Tensor>& items) {
  for (const auto& item : items) out.emplace(item.key(), item.value());
}

}  // namespace

NamedTensors module_state(const torch::nn::Module& module) {
  NamedTensors out;
  append(out, module.named_parameters());
  append(out, module.named_buffers());
  return out;
}

void require_module_state(const torch::nn::Module& module, const NamedTensors& state) {
  const auto own = module_state(module);
  for (const auto& [name, tensor] : state) {
    if (!own.contains(name)) fail(ErrorKind::data, "model state", "the saved state holds {}, the model does not", name);
  }
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found == state.end())
      fail(ErrorKind::data, "model state", "the model holds {}, the saved state does not", name);
    const auto& value = found->second;
    if (value.sizes() != tensor.sizes() || value.scalar_type() != tensor.scalar_type()) {
      fail(ErrorKind::data, "model state", "{} is {} in the saved state and {} in the model", name, text_of_form(value),
           text_of_form(tensor));
    }
  }
}

void load_module_state(torch::nn::Module& module, const NamedTensors& state) {
  const torch::NoGradGuard no_grad;
  require_module_state(module, state);
  for (auto& [name, tensor] : module_state(module)) at::Tensor(tensor).copy_(state.at(name));
}

std::string params_sha256(const torch::nn::Module& module) { return sha256_of(module_state(module)); }

}  // namespace lockstep::train
