// Optimizers of rows: steps over sparse and dense gradients with the loops of rows/, their state, and their parts.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/optimizer/row_optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
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

constexpr double kMostRowNumber = 1e6;

/// lazy_sgd has no options.
rows::RuleSettings rule_settings(const OptimizerConfig& config, rows::Rule rule) {
  rows::RuleSettings settings{.rule = rule, .weight_decay = config.weight_decay};
  if (rule == rows::Rule::momentum) settings.momentum = config.options.as<LazyMomentumSettings>().momentum;
  if (rule == rows::Rule::adagrad) {
    const auto& own = config.options.as<LazyAdagradSettings>();
    settings.eps = own.eps;
    settings.initial_accumulator = own.initial_accumulator;
  }
  if (rule == rows::Rule::lazy_adam) {
    const auto& own = config.options.as<AdamSettings>();
    settings.beta1 = own.betas.at(0);
    settings.beta2 = own.betas.at(1);
    settings.eps = own.eps;
  }
  if (rule == rows::Rule::ftrl) {
    const auto& own = config.options.as<FtrlSettings>();
    settings.l1 = own.l1;
    settings.l2 = own.l2;
    settings.initial_accumulator = own.initial_accumulator;
  }
  return settings;
}

/// Checked before the first step, which would allocate the memory. Tables on servers need no memory here.
void require_memory_of_state(const std::vector<at::Tensor>& parameters, rows::Rule rule) {
  std::int64_t numbers = 0;
  for (const auto& parameter : parameters) {
    if (parameter.is_non_overlapping_and_dense()) numbers += parameter.numel();
  }
  const auto states = rows::state_names(rule).size();
  const auto bytes = static_cast<std::uint64_t>(numbers) * states * sizeof(float);
  const auto available = available_memory();
  if (bytes <= available) return;
  fail(ErrorKind::config, "optimizer.name",
       "the optimizer keeps {} numbers beside each of {} parameters, {} bytes, and {} bytes of memory are available to "
       "this process; with parameter servers no process has all rows of a table (docs/recommendation.md)",
       states, numbers, bytes, available);
}

OptimizerPart row_part(std::string name, std::string doc, rows::Rule rule, PartOptions options) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .options = std::move(options),
          .make =
              [rule](const std::vector<at::Tensor>& parameters, const OptimizerConfig& config) {
                require_memory_of_state(parameters, rule);
                RowOptions defaults;
                defaults.settings = rule_settings(config, rule);
                defaults.lr = config.lr;
                return std::make_unique<RowOptimizer>(std::vector{torch::optim::OptimizerParamGroup(parameters)},
                                                      defaults);
              },
          .elementwise = true,
          .takes_rows = true};
}

/// A RowState with the values before the first step.
std::unique_ptr<RowState> initial_row_state(const rows::RuleSettings& settings, const at::Tensor& parameter) {
  auto state = std::make_unique<RowState>();
  state->rule = settings.rule;
  for (std::size_t i = 0; i < rows::state_names(settings.rule).size(); ++i) {
    state->tensors[i] = torch::full_like(parameter, rows::initial_state(settings, i), torch::MemoryFormat::Preserve);
  }
  return state;
}

}  // namespace

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

void describe(ConfigFields& fields, LazyMomentumSettings& settings) {
  fields.field("momentum", settings.momentum, or_default(from_to_below(0, 1)),
               "share of the last update; null: the default");
}

void describe(ConfigFields& fields, LazyAdagradSettings& settings) {
  fields.field("initial_accumulator", settings.initial_accumulator, between(0, kMostRowNumber),
               "the sum of squares before the first step");
  fields.field("eps", settings.eps, {.low = 0, .high = kMostRowNumber, .low_excluded = true},
               "added to the denominator");
}

void describe(ConfigFields& fields, FtrlSettings& settings) {
  fields.field("l1", settings.l1, between(0, kMostRowNumber), "L1 penalty: weights that matter less are 0");
  fields.field("l2", settings.l2, between(0, kMostRowNumber), "L2 penalty");
  fields.field("initial_accumulator", settings.initial_accumulator,
               {.low = 0, .high = kMostRowNumber, .low_excluded = true}, "the sum of squares before the first step");
}

void add_row_optimizer(Parts& parts) {
  const auto add = [&parts](std::string name, std::string doc, rows::Rule rule, PartOptions options) {
    parts.optimizers.push_back(row_part(std::move(name), std::move(doc), rule, std::move(options)));
  };
  add("lazy_sgd", "sgd of the rows of the step", rows::Rule::sgd, {});
  add("lazy_momentum", "momentum of the rows of the step", rows::Rule::momentum,
      PartOptions::of(LazyMomentumSettings{}));
  add("lazy_adagrad", "Adagrad of the rows of the step", rows::Rule::adagrad, PartOptions::of(LazyAdagradSettings{}));
  add("lazy_adam", "Adam of the rows of the step", rows::Rule::lazy_adam, PartOptions::of(AdamSettings{}));
  parts.optimizers.back().check = [](const OptimizerConfig& config) {
    require_two_betas(config.options.as<AdamSettings>().betas);
  };
  add("ftrl", "follow the regularized leader, for sparse linear models", rows::Rule::ftrl,
      PartOptions::of(FtrlSettings{}));
}

}  // namespace lockstep::train
