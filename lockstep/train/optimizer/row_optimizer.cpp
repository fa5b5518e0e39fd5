// The update of float32 parameters on the CPU by a row rule: only the rows of a sparse gradient, or all elements.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/optimizer/row_optimizer.h>

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace lockstep::train {
namespace {

constexpr std::int64_t kNumbersOfThread = 1 << 15;  // fewer are not worth a thread

void require_row_parameter(const at::Tensor& parameter) {
  const bool fits = !is_global(parameter) && parameter.is_cpu() && parameter.scalar_type() == torch::kFloat &&
                    parameter.is_non_overlapping_and_dense();
  if (fits) return;
  fail(ErrorKind::unsupported, "optimizer.name",
       "the optimizers of rows (lazy_adam, ftrl, ...) update float32 parameters on the CPU in parallel.mode "
       "data_parallel, and one is {} [{}]{}; take adam, adagrad or sgd, or another mode",
       c10::toString(parameter.scalar_type()), fmt::join(parameter.sizes(), ", "),
       is_global(parameter) ? ", global" : "");
}

rows::RowPlace place_of(const at::Tensor& parameter, const RowState& state, std::int64_t first) {
  rows::RowPlace place{.weights = parameter.data_ptr<float>() + first};
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    if (state.tensors[i].defined()) place.states[i] = state.tensors[i].data_ptr<float>() + first;
  }
  return place;
}

void update_rows(const at::Tensor& parameter, const RowState& state, const rows::RowUpdate& update) {
  const auto touched = mirrored::rows_of(parameter.grad());
  const auto dim = parameter.numel() / parameter.size(0);
  const auto count = static_cast<std::int64_t>(touched.ids.size());
  at::parallel_for(0, count, std::max<std::int64_t>(1, kNumbersOfThread / dim),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (auto i = begin; i < end; ++i) {
                       apply(update, touched.values.data() + i * dim,
                             place_of(parameter, state, touched.ids[static_cast<std::size_t>(i)] * dim),
                             static_cast<std::size_t>(dim));
                     }
                   });
}

void update_all(const at::Tensor& parameter, const RowState& state, const rows::RowUpdate& update) {
  auto gradient = parameter.grad();
  if (gradient.strides() != parameter.strides() || gradient.scalar_type() != torch::kFloat) {
    gradient = torch::empty_like(parameter).copy_(gradient);
  }
  const auto* numbers = gradient.data_ptr<float>();
  at::parallel_for(0, parameter.numel(), kNumbersOfThread, [&](std::int64_t begin, std::int64_t end) {
    apply(update, numbers + begin, place_of(parameter, state, begin), static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

std::unique_ptr<RowState> initial_row_state(const rows::RuleSettings& settings, const at::Tensor& parameter) {
  auto state = std::make_unique<RowState>();
  state->rule = settings.rule;
  for (std::size_t i = 0; i < rows::state_names(settings.rule).size(); ++i) {
    state->tensors[i] = torch::full_like(parameter, rows::initial_state(settings, i), torch::MemoryFormat::Preserve);
  }
  return state;
}

RowOptimizer::RowOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups, const RowOptions& defaults)
    : OwnOptimizer(std::move(groups), std::make_unique<RowOptions>(defaults)) {}

torch::Tensor RowOptimizer::step(LossClosure closure) {
  return step_over<RowOptions>(param_groups_, closure, [this](at::Tensor& parameter, const RowOptions& options) {
    require_row_parameter(parameter);
    auto& slot = state_[compat::optimizer_state_key<std::decay_t<decltype(state_)>>(parameter)];
    if (!slot) slot = initial_row_state(options.settings, parameter.detach());
    auto& state = static_cast<RowState&>(*slot);
    const auto update = rows::row_update(options.settings, options.lr, ++state.step);
    if (parameter.grad().is_sparse()) {
      update_rows(parameter, state, update);
    } else {
      update_all(parameter, state, update);
    }
  });
}

std::vector<std::string> RowOptimizer::remembered_tensors() const {
  std::vector<std::string> names;
  for (const auto& group : param_groups()) {
    for (const auto name : rows::state_names(static_cast<const RowOptions&>(group.options()).settings.rule)) {
      if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
    }
  }
  return names;
}

NamedTensors RowOptimizer::memory_of(const at::Tensor& parameter) const {
  NamedTensors fields;
  const auto* state = find_state<RowState>(*this, parameter);
  if (state == nullptr) return fields;
  const auto names = rows::state_names(state->rule);
  for (std::size_t i = 0; i < names.size(); ++i) add_field(fields, names[i], state->tensors[i]);
  add_step(fields, state->step);
  return fields;
}

void RowOptimizer::load_memory_of(const at::Tensor& parameter, NamedTensors& saved) {
  const auto* options = options_for(*this, parameter);
  if (options == nullptr) return;
  const auto& settings = static_cast<const RowOptions&>(*options).settings;
  const auto step = take_field(saved, kRememberedStep);
  if (!step.defined()) return;
  auto state = initial_row_state(settings, parameter.detach());
  state->step = step.item<std::int64_t>();
  const auto names = rows::state_names(settings.rule);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto tensor = take_field(saved, names[i]);
    if (!tensor.defined()) return;
    state->tensors[i].copy_(tensor);
  }
  put_state(*this, parameter, std::move(state));
}

}  // namespace lockstep::train
