// The conversion of optimizer states to tensors named PARAMETER.FIELD and back: torch::optim, LARS, LAMB, row rules.
#include <lockstep/base/error.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/lamb.h>
#include <lockstep/train/optimizer/lars.h>
#include <lockstep/train/optimizer/row_optimizer.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

namespace lockstep::train {
namespace {

namespace optim = torch::optim;

constexpr std::string_view kStateWhere = "optimizer state";

template <typename Map>
optim::OptimizerParamState* find_state(const Map& states, const at::Tensor& parameter) {
  const auto found = states.find(compat::optimizer_state_key<Map>(parameter));
  return found == states.end() ? nullptr : found->second.get();
}

template <typename Map>
void put_state(Map& states, const at::Tensor& parameter, std::unique_ptr<optim::OptimizerParamState> state) {
  states[compat::optimizer_state_key<Map>(parameter)] = std::move(state);
}

void append(NamedTensors& out, const std::string& parameter, std::string_view field, const at::Tensor& tensor) {
  if (tensor.defined()) out.emplace(fmt::format("{}.{}", parameter, field), tensor);
}

template <typename State>
void append_moments(NamedTensors& out, const std::string& parameter, const State& state) {
  if (state.max_exp_avg_sq().defined()) {
    fail(ErrorKind::unsupported, kStateWhere, "amsgrad cannot be saved; make the optimizer without it");
  }
  append(out, parameter, "exp_avg", state.exp_avg());
  append(out, parameter, "exp_avg_sq", state.exp_avg_sq());
  append(out, parameter, kRememberedStep, torch::scalar_tensor(state.step(), torch::kLong));
}

void append_squares(NamedTensors& out, const std::string& parameter, const optim::RMSpropParamState& state) {
  append(out, parameter, "square_avg", state.square_avg());
  append(out, parameter, "momentum_buffer", state.momentum_buffer());
  append(out, parameter, "grad_avg", state.grad_avg());
  append(out, parameter, kRememberedStep, torch::scalar_tensor(state.step(), torch::kLong));
}

/// libtorch's Adagrad has a state before the first update, too, which is made from the configuration.
void append_sum(NamedTensors& out, const std::string& parameter, const optim::AdagradParamState& state) {
  if (state.step() == 0) return;
  append(out, parameter, "sum", state.sum());
  append(out, parameter, kRememberedStep, torch::scalar_tensor(state.step(), torch::kLong));
}

void append_rows(NamedTensors& out, const std::string& parameter, const RowState& state) {
  const auto names = rows::state_names(state.rule);
  for (std::size_t i = 0; i < names.size(); ++i) append(out, parameter, names[i], state.tensors[i]);
  append(out, parameter, kRememberedStep, torch::scalar_tensor(state.step, torch::kLong));
}

// The tensors of a saved state by name; each is taken once.
class Saved {
 public:
  explicit Saved(const NamedTensors& tensors) : tensors_(tensors) {}

  at::Tensor take(const std::string& parameter, std::string_view field, at::IntArrayRef shape) {
    const auto found = tensors_.find(fmt::format("{}.{}", parameter, field));
    if (found == tensors_.end()) return {};
    auto tensor = found->second;
    if (tensor.sizes() != shape) {
      fail(ErrorKind::data, kStateWhere, "{} has {} elements in the checkpoint, the model's parameter needs {}",
           found->first, tensor.numel(), c10::multiply_integers(shape));
    }
    tensors_.erase(found);
    return tensor;
  }

  void require_empty() const {
    if (tensors_.empty()) return;
    fail(ErrorKind::data, kStateWhere,
         "the checkpoint holds {} which this optimizer has no place for; resume with the "
         "model and optimizer that wrote it",
         tensors_.begin()->first);
  }

 private:
  NamedTensors tensors_;
};

at::Tensor like(const at::Tensor& saved, const at::Tensor& parameter) {
  return at::empty_like(parameter, parameter.suggest_memory_format()).copy_(saved);
}

std::unique_ptr<optim::OptimizerParamState> take_sgd(Saved& saved, const std::string& name, const at::Tensor& p) {
  const auto momentum = saved.take(name, "momentum_buffer", p.sizes());
  if (!momentum.defined()) return nullptr;
  auto state = std::make_unique<optim::SGDParamState>();
  state->momentum_buffer(like(momentum, p));
  return state;
}

template <typename State>
std::unique_ptr<optim::OptimizerParamState> take_moments(Saved& saved, const std::string& name, const at::Tensor& p) {
  const auto average = saved.take(name, "exp_avg", p.sizes());
  const auto square = saved.take(name, "exp_avg_sq", p.sizes());
  const auto step = saved.take(name, kRememberedStep, {});
  if (!average.defined() || !square.defined() || !step.defined()) return nullptr;
  auto state = std::make_unique<State>();
  state->exp_avg(like(average, p));
  state->exp_avg_sq(like(square, p));
  state->step(step.template item<std::int64_t>());
  return state;
}

/// With momentum, or centered, there must be tensors that the run before may not have had.
std::unique_ptr<optim::OptimizerParamState> take_squares(Saved& saved, const std::string& name, const at::Tensor& p,
                                                         const optim::RMSpropOptions& options) {
  const auto square = saved.take(name, "square_avg", p.sizes());
  const auto momentum = saved.take(name, "momentum_buffer", p.sizes());
  const auto average = saved.take(name, "grad_avg", p.sizes());
  const auto step = saved.take(name, kRememberedStep, {});
  if (!square.defined() || !step.defined()) return nullptr;
  const auto taken_or_0 = [&p](const at::Tensor& tensor) {
    return tensor.defined() ? like(tensor, p) : at::zeros_like(p, at::MemoryFormat::Preserve);
  };
  auto state = std::make_unique<optim::RMSpropParamState>();
  state->square_avg(like(square, p));
  if (options.momentum() > 0) state->momentum_buffer(taken_or_0(momentum));
  if (options.centered()) state->grad_avg(taken_or_0(average));
  state->step(step.item<std::int64_t>());
  return state;
}

std::unique_ptr<optim::OptimizerParamState> take_sum(Saved& saved, const std::string& name, const at::Tensor& p) {
  const auto sum = saved.take(name, "sum", p.sizes());
  const auto step = saved.take(name, kRememberedStep, {});
  if (!sum.defined() || !step.defined()) return nullptr;
  auto state = std::make_unique<optim::AdagradParamState>();
  state->sum(like(sum, p));
  state->step(step.item<std::int64_t>());
  return state;
}

/// The rule of a parameter's group.
std::unique_ptr<optim::OptimizerParamState> take_rows(Saved& saved, const std::string& name, const at::Tensor& p,
                                                      const RowOptimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    const auto& parameters = group.params();
    if (std::ranges::none_of(parameters, [&p](const auto& each) { return each.is_same(p); })) continue;
    const auto step = saved.take(name, kRememberedStep, {});
    if (!step.defined()) return nullptr;
    const auto& settings = static_cast<const RowOptions&>(group.options()).settings;
    auto state = initial_row_state(settings, p.detach());
    state->step = step.item<std::int64_t>();
    const auto names = rows::state_names(settings.rule);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto tensor = saved.take(name, names[i], p.sizes());
      if (!tensor.defined()) return nullptr;
      state->tensors[i].copy_(tensor);
    }
    return state;
  }
  return nullptr;
}

template <typename... Kinds>
bool is_kind_of(const optim::Optimizer& optimizer) {
  return ((dynamic_cast<const Kinds*>(&optimizer) != nullptr) || ...);
}

std::unique_ptr<optim::OptimizerParamState> take_state(const optim::Optimizer& optimizer, Saved& saved,
                                                       const std::string& name, const at::Tensor& p) {
  if (const auto* rows = dynamic_cast<const RowOptimizer*>(&optimizer)) return take_rows(saved, name, p, *rows);
  if (is_kind_of<optim::SGD, Lars>(optimizer)) return take_sgd(saved, name, p);
  if (is_kind_of<optim::Adam, Lamb>(optimizer)) return take_moments<optim::AdamParamState>(saved, name, p);
  if (is_kind_of<optim::Adagrad>(optimizer)) return take_sum(saved, name, p);
  if (is_kind_of<optim::RMSprop>(optimizer)) {
    return take_squares(saved, name, p, static_cast<const optim::RMSpropOptions&>(optimizer.defaults()));
  }
  return take_moments<optim::AdamWParamState>(saved, name, p);
}

}  // namespace

std::vector<std::string> remembered_tensors(const optim::Optimizer& optimizer) {
  if (is_kind_of<RowOptimizer>(optimizer)) {
    std::vector<std::string> names;
    for (const auto& group : optimizer.param_groups()) {
      for (const auto name : rows::state_names(static_cast<const RowOptions&>(group.options()).settings.rule)) {
        if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
      }
    }
    return names;
  }
  if (is_kind_of<optim::SGD, Lars>(optimizer)) return {"momentum_buffer"};
  if (is_kind_of<optim::RMSprop>(optimizer)) return {"square_avg", "momentum_buffer", "grad_avg"};
  if (is_kind_of<optim::Adagrad>(optimizer)) return {"sum"};
  return {"exp_avg", "exp_avg_sq"};
}

NamedTensors optimizer_state(const optim::Optimizer& optimizer, const NamedParameters& parameters) {
  NamedTensors out;
  for (const auto& [name, parameter] : parameters) {
    const auto* state = find_state(optimizer.state(), parameter);
    if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(state)) {
      append(out, name, "momentum_buffer", sgd->momentum_buffer());
    } else if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(state)) {
      append_moments(out, name, *adam);
    } else if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(state)) {
      append_moments(out, name, *adamw);
    } else if (const auto* rmsprop = dynamic_cast<const optim::RMSpropParamState*>(state)) {
      append_squares(out, name, *rmsprop);
    } else if (const auto* adagrad = dynamic_cast<const optim::AdagradParamState*>(state)) {
      append_sum(out, name, *adagrad);
    } else if (const auto* rows = dynamic_cast<const RowState*>(state)) {
      append_rows(out, name, *rows);
    } else if (state != nullptr) {
      fail(ErrorKind::unsupported, kStateWhere,
           "the optimizer remembers for {} what is not a state of torch::optim, and cannot be saved; use such a state "
           "(torch::optim::SGDParamState, AdamParamState, ...)",
           name);
    }
  }
  return out;
}

void load_optimizer_state(optim::Optimizer& optimizer, const NamedParameters& parameters, const NamedTensors& state) {
  torch::NoGradGuard no_grad;
  Saved saved(state);
  for (const auto& [name, parameter] : parameters) {
    auto loaded = take_state(optimizer, saved, name, parameter);
    if (loaded) put_state(optimizer.state(), parameter, std::move(loaded));
  }
  saved.require_empty();
}

}  // namespace lockstep::train
