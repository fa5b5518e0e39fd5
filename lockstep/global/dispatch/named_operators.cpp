// Module, parameter mark and operator number in a few bits of each tensor, from which a call's module is found.
#include <lockstep/global/dispatch/named_operators.h>

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>

namespace lockstep::global {
namespace {

/// TensorState::traced of a tensor with a module, from the lowest bit on: the module's number, whether it is a
/// parameter or computed from parameters alone, and the number of the operator that made it.
struct Mark {
  std::size_t module = 0;
  bool of_parameters = false;
  std::uint64_t made_by = 0;
};

constexpr unsigned kModuleBits = 20;

std::size_t packed(const Mark& mark) {
  return mark.module | static_cast<std::size_t>(mark.of_parameters) << kModuleBits |
         static_cast<std::size_t>(mark.made_by) << (kModuleBits + 1);
}

Mark unpacked(std::size_t bits) {
  return {.module = bits & ((std::size_t{1} << kModuleBits) - 1),
          .of_parameters = ((bits >> kModuleBits) & 1) != 0,
          .made_by = bits >> (kModuleBits + 1)};
}

/// Backward, optimizers and evaluation do not record gradients; a forward that backward computes again does.
bool in_forward_of_training() { return at::GradMode::is_enabled(); }

/// A parameter that is written to (by an optimizer) stays one.
void mark(const at::Tensor& tensor, std::size_t bits) {
  if (!is_global(tensor)) return;
  auto& now = state_of(tensor).traced;
  if (now == kNotTraced || unpacked(now).made_by > 0) now = bits;
}

}  // namespace

std::set<std::string, std::less<>> containers_of(const torch::nn::Module& module) {
  std::set<std::string, std::less<>> containers;
  for (const auto& each : module.named_modules(/*name_prefix=*/std::string(), /*include_self=*/false)) {
    const auto* inner = each.value().get();
    if (dynamic_cast<const torch::nn::SequentialImpl*>(inner) || dynamic_cast<const torch::nn::ModuleListImpl*>(inner))
      containers.insert(each.key());
  }
  return containers;
}

NamedOperators::NamedOperators(OperatorStrategies strategies, std::set<std::string, std::less<>> containers)
    : strategies_(std::move(strategies)), containers_(std::move(containers)) {}

std::size_t NamedOperators::number_of(const std::string& module) {
  const auto [found, is_new] = numbers_.emplace(module, modules_.size());
  if (is_new) modules_.push_back(module);
  return found->second;
}

void NamedOperators::name(const at::Tensor& tensor, const std::string& module) {
  mark(tensor, packed({.module = number_of(module), .of_parameters = true}));
}

NamedOperators::NamedCall NamedOperators::called(const OpInfo& info, const torch::jit::Stack& arguments) {
  if (!in_forward_of_training()) {
    last_module_.clear();
    return {};
  }
  std::vector<Mark> inputs;
  bool of_parameters = true;
  for (const auto& each : input_tensors(info, arguments)) {
    if (!is_global(each.tensor)) continue;
    const auto bits = state_of(each.tensor).traced;
    if (bits != kNotTraced) inputs.push_back(unpacked(bits));
    of_parameters = of_parameters && bits != kNotTraced && inputs.back().of_parameters;
  }
  const bool nobodys = inputs.empty();  // computed from the batch, or from nothing
  const auto own = std::find_if(inputs.begin(), inputs.end(), [](const Mark& each) { return each.of_parameters; });
  if (own != inputs.end()) {
    last_module_ = modules_.at(own->module);
  } else if (!nobodys) {
    std::stable_sort(inputs.begin(), inputs.end(), [](const Mark& a, const Mark& b) { return a.made_by < b.made_by; });
    std::vector<std::string> modules;
    for (const auto& each : inputs) modules.push_back(modules_.at(each.module));
    last_module_ = joining_module(modules, containers_);
  }
  const auto module = number_of(last_module_);
  NamedCall call;
  if (!nobodys) {
    call.results = packed({.module = module, .of_parameters = of_parameters, .made_by = ++operators_});
  } else {
    call.results = kNotTraced;
  }
  const bool uses_weights = own != inputs.end();
  const auto [known, is_new] = found_.emplace(std::pair(module, info.name + (uses_weights ? " of weights" : "")), 0);
  if (is_new) {
    const auto strategy = find_strategy(strategies_, last_module_, info.name, uses_weights);
    const auto at = std::find(strategies_.begin(), strategies_.end(), strategy);
    if (strategy && !info.is_view) known->second = at - strategies_.begin() + 1;
  }
  call.number = known->second;
  if (call.number > 0) call.strategy = strategies_[static_cast<std::size_t>(call.number - 1)];
  return call;
}

void NamedOperators::made(const NamedCall& call, c10::ArrayRef<c10::IValue> results) {
  if (!call.results) return;
  for (const auto& result : results) {
    if (result.isTensor()) {
      mark(result.toTensor(), *call.results);
    } else if (result.isTensorList()) {
      for (const auto& each : result.toTensorVector()) mark(each, *call.results);
    }
  }
}

void set_strategies(const torch::nn::Module& module, const Mesh& mesh, OperatorStrategies strategies) {
  if (strategies.empty()) return;
  auto names = std::make_shared<NamedOperators>(std::move(strategies), containers_of(module));
  for (const auto& each : module.named_parameters()) names->name(each.value(), std::string(owner_of(each.key())));
  for (const auto& each : module.named_buffers()) names->name(each.value(), std::string(owner_of(each.key())));
  mesh.state()->set_named_operators(std::move(names));
}

NamedOperators* names_of(c10::ArrayRef<c10::IValue> arguments) {
  for (const auto& value : arguments) {
    if (value.isTensor()) {
      if (is_global(value.toTensor())) return state_of(value.toTensor()).mesh->named_operators();
    } else if (value.isTensorList()) {
      for (const auto& each : value.toTensorVector()) {
        if (is_global(each)) return state_of(each).mesh->named_operators();
      }
    }
  }
  return nullptr;
}

}  // namespace lockstep::global
