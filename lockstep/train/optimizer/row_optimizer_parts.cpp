// The table of row optimizer parts: keys, rule settings, and a check that memory suffices for the state.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/train/optimizer/row_optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace lockstep::train {
namespace {

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

}  // namespace

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

std::vector<OptimizerPart> row_optimizer_parts() {
  auto parts = std::vector{
      row_part("lazy_sgd", "sgd of the rows of the step", rows::Rule::sgd, {}),
      row_part("lazy_momentum", "momentum of the rows of the step", rows::Rule::momentum,
               PartOptions::of(LazyMomentumSettings{})),
      row_part("lazy_adagrad", "Adagrad of the rows of the step", rows::Rule::adagrad,
               PartOptions::of(LazyAdagradSettings{})),
      row_part("lazy_adam", "Adam of the rows of the step", rows::Rule::lazy_adam, PartOptions::of(AdamSettings{})),
      row_part("ftrl", "follow the regularized leader, for sparse linear models", rows::Rule::ftrl,
               PartOptions::of(FtrlSettings{}))};
  for (auto& part : parts) {
    if (part.name != "lazy_adam") continue;
    part.check = [](const OptimizerConfig& config) {
      const auto& betas = config.options.as<AdamSettings>().betas;
      if (betas.size() == 2) return;
      fail(ErrorKind::config, "config", "optimizer.betas must hold 2 numbers, it holds {}", betas.size());
    };
  }
  return parts;
}

}  // namespace lockstep::train
