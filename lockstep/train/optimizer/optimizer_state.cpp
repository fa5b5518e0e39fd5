// The state of optimizers as tensors named PARAMETER.FIELD and back: of classes that carry it (OptimizerMemory) and of
// torch::optim's.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/own_optimizer.h>
#include <lockstep/train/optimizer/torch_optimizer.h>

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <typeinfo>

namespace lockstep::train {
namespace {

NamedTensors optimizer_tensors_in(const ShardedIndex& index, const std::string& prefix,
                                  const torch::optim::Optimizer& optimizer, const NamedParameters& parameters) {
  NamedTensors state;
  for (const auto& [name, parameter] : parameters) {
    for (const auto& field : remembered_tensors(optimizer)) {
      const auto key = fmt::format("{}{}.{}", prefix, name, field);
      if (index.tensors.contains(key)) state.emplace(key, torch::zeros_like(parameter));
    }
    const auto key = fmt::format("{}{}.{}", prefix, name, kRememberedStep);
    if (index.tensors.contains(key)) state.emplace(key, torch::zeros({}, torch::kLong));
  }
  return state;
}

namespace optim = torch::optim;

constexpr std::string_view kStateWhere = "optimizer state";

NamedTensors memory_of(const optim::Optimizer& optimizer, const at::Tensor& parameter) {
  if (const auto* own = dynamic_cast<const OptimizerMemory*>(&optimizer)) return own->memory_of(parameter);
  return torch_optimizer_of(optimizer).memory_of(optimizer, parameter);
}

void load_memory_of(optim::Optimizer& optimizer, const at::Tensor& parameter, NamedTensors& saved) {
  if (auto* own = dynamic_cast<OptimizerMemory*>(&optimizer)) return own->load_memory_of(parameter, saved);
  torch_optimizer_of(optimizer).load_memory_of(optimizer, parameter, saved);
}

[[noreturn]] void fail_no_place(std::string_view key) {
  fail(ErrorKind::data, kStateWhere,
       "the checkpoint holds {} which this optimizer has no place for; resume with the "
       "model and optimizer that wrote it",
       key);
}

void require_shape(std::string_view key, const at::Tensor& saved, at::IntArrayRef shape) {
  if (saved.sizes() == shape) return;
  fail(ErrorKind::data, kStateWhere, "{} has {} elements in the checkpoint, the model's parameter needs {}", key,
       saved.numel(), c10::multiply_integers(shape));
}

}  // namespace

void load_sharded_optimizer(const std::filesystem::path& folder, const std::string& prefix,
                            torch::optim::Optimizer& optimizer, const NamedParameters& parameters) {
  const torch::NoGradGuard no_grad;
  const auto mesh = mesh_of_tensors({parameters.begin(), parameters.end()});
  const Group* group = mesh ? &mesh->group() : nullptr;
  const auto index = shared_index(folder, group);
  const auto tensors = optimizer_tensors_in(index, prefix, optimizer, parameters);
  for (auto saved = index.tensors.lower_bound(prefix); saved != index.tensors.end() && saved->first.starts_with(prefix);
       ++saved) {
    if (tensors.contains(saved->first)) continue;
    throw Error(ErrorKind::data, "sharded checkpoint",
                fmt::format("it holds \"{}\", for which this optimizer has no place; load with the parameters and the "
                            "kind of optimizer that were saved",
                            saved->first),
                {(folder / kIndexName).string(), 0});
  }
  fill_all(folder, index, tensors, group);
  NamedTensors state;
  for (const auto& [key, tensor] : tensors) state.emplace(key.substr(prefix.size()), tensor);
  load_optimizer_state(optimizer, parameters, state);
}

const optim::OptimizerOptions* options_for(const optim::Optimizer& optimizer, const at::Tensor& parameter) {
  for (const auto& group : optimizer.param_groups()) {
    const auto& own = group.params();
    if (std::ranges::any_of(own, [&](const auto& each) { return each.is_same(parameter); })) return &group.options();
  }
  return nullptr;
}

void fail_foreign_state(const optim::OptimizerParamState& state) {
  fail(ErrorKind::unsupported, kStateWhere,
       "the optimizer keeps for a parameter a {}, which its class does not save; keep the state of its base class, or "
       "make the class a lockstep::train::OptimizerMemory, too",
       c10::demangle(typeid(state).name()));
}

void fail_amsgrad() {
  fail(ErrorKind::unsupported, kStateWhere, "amsgrad cannot be saved; make the optimizer without it");
}

void put_state(optim::Optimizer& optimizer, const at::Tensor& parameter,
               std::unique_ptr<optim::OptimizerParamState> state) {
  auto& states = optimizer.state();
  if (state) states[compat::optimizer_state_key<std::decay_t<decltype(states)>>(parameter)] = std::move(state);
}

void add_field(NamedTensors& fields, std::string_view name, const at::Tensor& tensor) {
  if (tensor.defined()) fields.emplace(name, tensor);
}

void add_step(NamedTensors& fields, std::int64_t step) {
  fields.emplace(kRememberedStep, torch::scalar_tensor(step, torch::kLong));
}

at::Tensor take_field(NamedTensors& fields, std::string_view name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return {};
  auto tensor = found->second;
  fields.erase(found);
  return tensor;
}

at::Tensor like_parameter(const at::Tensor& saved, const at::Tensor& parameter) {
  return at::empty_like(parameter, parameter.suggest_memory_format()).copy_(saved);
}

NamedTensors fields_of_momentum(const optim::SGDParamState* state) {
  NamedTensors fields;
  if (state != nullptr) add_field(fields, "momentum_buffer", state->momentum_buffer());
  return fields;
}

std::unique_ptr<optim::SGDParamState> take_momentum(NamedTensors& fields, const at::Tensor& parameter) {
  const auto momentum = take_field(fields, "momentum_buffer");
  if (!momentum.defined()) return nullptr;
  auto state = std::make_unique<optim::SGDParamState>();
  state->momentum_buffer(like_parameter(momentum, parameter));
  return state;
}

std::vector<std::string> remembered_tensors(const optim::Optimizer& optimizer) {
  if (const auto* own = dynamic_cast<const OptimizerMemory*>(&optimizer)) return own->remembered_tensors();
  return torch_optimizer_of(optimizer).remembered;
}

NamedTensors optimizer_state(const optim::Optimizer& optimizer, const NamedParameters& parameters) {
  NamedTensors out;
  for (const auto& [name, parameter] : parameters) {
    for (auto& [field, tensor] : memory_of(optimizer, parameter))
      out.emplace(fmt::format("{}.{}", name, field), tensor);
  }
  return out;
}

void load_optimizer_state(optim::Optimizer& optimizer, const NamedParameters& parameters, const NamedTensors& state) {
  torch::NoGradGuard no_grad;
  auto left = state;
  const auto names = remembered_tensors(optimizer);
  for (const auto& [name, parameter] : parameters) {
    NamedTensors fields;
    const auto take = [&, &owner = name](std::string_view field, at::IntArrayRef shape) {
      auto found = left.extract(fmt::format("{}.{}", owner, field));
      if (found.empty()) return;
      require_shape(found.key(), found.mapped(), shape);
      fields.emplace(field, found.mapped());
    };
    for (const auto& field : names) take(field, parameter.sizes());
    take(kRememberedStep, {});
    load_memory_of(optimizer, parameter, fields);
    if (!fields.empty()) fail_no_place(fmt::format("{}.{}", name, fields.begin()->first));
  }
  if (!left.empty()) fail_no_place(left.begin()->first);
}

}  // namespace lockstep::train
