// The row rule of each table, found by an optimizer over placeholder tensors without memory and its parameter groups.
#include <lockstep/base/error.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/optimizer/row_optimizer.h>
#include <lockstep/train/served/table_rules.h>

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::train {
namespace {

/// A tensor of these sizes, without memory.
at::Tensor placeholder(at::IntArrayRef sizes) { return torch::zeros({}).expand(sizes).requires_grad_(); }

NamedParameters placeholders(const torch::nn::Module& module) {
  NamedParameters tables;
  for (const auto& [name, table] : models::tables_elsewhere(module)) {
    tables.emplace_back(name, placeholder({table->shape().rows, table->shape().dim}));
  }
  return tables;
}

const RowOptions* row_options(const torch::optim::OptimizerParamGroup& group) {
  return dynamic_cast<const RowOptions*>(&group.options());
}

}  // namespace

std::vector<parameter_servers::TableSpec> table_specs(const torch::nn::Module& module) {
  std::vector<parameter_servers::TableSpec> specs;
  for (const auto& [name, table] : models::tables_elsewhere(module)) {
    const auto& shape = table->shape();
    specs.push_back({.name = name,
                     .rows = shape.rows,
                     .dim = shape.dim,
                     .seed = table->distant()->seed,
                     .deviation = shape.deviation,
                     .key = parameter_servers::key_of(name)});
  }
  return specs;
}

NamedParameters trained_parameters(const torch::nn::Module& module) {
  auto parameters = trainable_parameters(module);
  for (auto& table : placeholders(module)) parameters.push_back(std::move(table));
  return parameters;
}

ResolvedRun run_of_module(const ResolvedRun& run, const torch::nn::Module& module) {
  if (models::tables_elsewhere(module).empty()) return run;
  settings_of(run, trained_parameters(module));  // its errors
  return without_idle_patterns(run, trainable_parameters(module));
}

TableRules::TableRules(const ResolvedRun& run, const torch::nn::Module& module, const NamedParameters& served) {
  settings_of(run, trained_parameters(module));
  auto tables = placeholders(module);
  for (const auto& [name, parameter] : served) tables.emplace_back(name, placeholder(parameter.sizes()));
  optimizer_ = make_optimizer(without_idle_patterns(run, tables), tables);
  const auto& groups = optimizer_->param_groups();
  for (const auto& [name, table] : tables) {
    const auto has = [&table = table](const torch::optim::OptimizerParamGroup& group) {
      return std::ranges::any_of(group.params(), [&](const at::Tensor& each) { return each.is_same(table); });
    };
    const auto group = std::ranges::find_if(groups, has);
    if (group == groups.end() || row_options(*group) == nullptr) {
      fail(ErrorKind::config, "optimizer.name",
           "{} is on parameter servers, which update rows: take lazy_sgd, lazy_momentum, lazy_adagrad, lazy_adam or "
           "ftrl, or parallel.mode=data_parallel",
           name);
    }
    groups_.push_back(static_cast<std::size_t>(group - groups.begin()));
  }
}

TableRules::~TableRules() = default;
TableRules::TableRules(TableRules&&) noexcept = default;

const rows::RuleSettings& TableRules::settings(std::size_t table) const {
  return row_options(optimizer_->param_groups()[groups_[table]])->settings;
}

rows::RowUpdate TableRules::update(std::size_t table, double lr, std::int64_t step) {
  set_learning_rate(*optimizer_, lr);
  const auto* options = row_options(optimizer_->param_groups()[groups_[table]]);
  return rows::row_update(options->settings, options->lr, step);
}

}  // namespace lockstep::train
