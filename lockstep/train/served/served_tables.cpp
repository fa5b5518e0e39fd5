// Dense parameters as tables of slices on parameter servers, chosen by pattern; the worker's client: gradients of
// tables and slices pushed after a step, values fetched back.
// The row rule of each table is found by an optimizer over placeholder tensors without memory and its parameter groups.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/models/remote_rows.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/keys/parameter_names.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/optimizer/row_optimizer.h>
#include <lockstep/train/served/served_tables.h>

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

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

namespace {

constexpr std::int64_t kNumbersOfKib = 1024 / sizeof(float);

}  // namespace

bool is_served_mode(const ParallelConfig& config) { return config.mode == "parameter_server"; }

std::optional<std::int64_t> most_ahead(const ServerConfig& config) {
  if (config.consistency == "async") return std::numeric_limits<std::int64_t>::max();
  if (config.consistency == "bounded" && config.staleness > 0) return config.staleness;
  return std::nullopt;
}

NamedParameters served_parameters(const ParallelConfig& config, const torch::nn::Module& module) {
  const auto& patterns = config.server.parameters;
  if (!is_served_mode(config)) return {};
  std::vector<std::string> names;
  NamedParameters served;
  for (auto& [name, parameter] : trainable_parameters(module)) {
    names.push_back(name);
    if (!fits_any(name, patterns)) {
      if (!most_ahead(config.server)) continue;
      fail(ErrorKind::config, "parallel.server.consistency",
           "is {}, and {} is not on servers, so that workers would still wait for each other in every step; set "
           "parallel.server.parameters=[\"*\"]",
           config.server.consistency, name);
    }
    if (!parameter.device().is_cpu() || parameter.scalar_type() != torch::kFloat) {
      fail(ErrorKind::config, "parallel.server.parameters", "{} is {} on {}; servers have float32 on the CPU", name,
           std::string(parameter.dtype().name()), parameter.device().str());
    }
    served.emplace_back(name, parameter);
  }
  for (const auto& [name, table] : models::tables_elsewhere(module)) names.push_back(name);
  if (patterns.empty()) return {};
  require_matches(patterns, names, "parallel.server.parameters");
  return served;
}

std::vector<parameter_servers::TableSpec> slice_specs(const ServerConfig& config, const NamedParameters& parameters) {
  std::vector<parameter_servers::TableSpec> specs;
  for (const auto& [name, parameter] : parameters) {
    const auto dim = std::clamp<std::int64_t>(parameter.numel(), 1, config.slice_kb * kNumbersOfKib);
    specs.push_back({.name = name,
                     .rows = std::max<std::int64_t>(1, (parameter.numel() + dim - 1) / dim),
                     .dim = dim,
                     .key = parameter_servers::key_of(name),
                     .is_slices = true});
  }
  return specs;
}

void share_first_values(const NamedParameters& parameters, const Group& everyone) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters) {
    auto values = parameter.detach();
    broadcast(values, everyone, 0);
  }
}

at::Tensor slices_of(const at::Tensor& values, const parameter_servers::TableSpec& spec) {
  auto slices = torch::zeros({spec.rows, spec.dim});
  slices.flatten().narrow(0, 0, values.numel()).copy_(values.detach().flatten());
  return slices;
}

/// A served parameter, with memory for its slices.
struct ServedParameters::Parameter {
  at::Tensor value;
  parameter_servers::TableSpec spec;
  std::size_t table;
  std::vector<std::int64_t> ids;
  at::Tensor gradients;
  at::Tensor slices;

  at::Tensor numbers_of(const at::Tensor& slices_or_gradients) const {
    return slices_or_gradients.flatten().narrow(0, 0, value.numel()).view(value.sizes());
  }
};

ServedParameters::ServedParameters(NamedParameters parameters, std::vector<parameter_servers::TableSpec> specs,
                                   std::size_t first_table) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& spec = specs[i];
    std::vector<std::int64_t> ids(static_cast<std::size_t>(spec.rows));
    std::iota(ids.begin(), ids.end(), 0);
    auto gradients = torch::zeros({spec.rows, spec.dim}), slices = torch::zeros({spec.rows, spec.dim});
    parameters_.push_back({parameters[i].second, std::move(spec), first_table + i, std::move(ids), std::move(gradients),
                           std::move(slices)});
  }
}

ServedParameters::~ServedParameters() = default;
ServedParameters::ServedParameters(ServedParameters&&) noexcept = default;
ServedParameters& ServedParameters::operator=(ServedParameters&&) noexcept = default;

std::vector<parameter_servers::GradientsOfTable> ServedParameters::take_gradients() {
  const torch::NoGradGuard no_grad;
  std::vector<parameter_servers::GradientsOfTable> taken;
  for (auto& each : parameters_) {
    auto gradient = std::exchange(each.value.mutable_grad(), {});
    if (!gradient.defined()) {
      taken.emplace_back();
      continue;
    }
    if (gradient.is_sparse()) {
      fail(ErrorKind::unsupported, "parallel.server.parameters",
           "the gradient of {} is sparse, and it is on servers as a whole: make the layer a "
           "lockstep::models::ServedEmbedding, "
           "whose rows are there",
           each.spec.name);
    }
    each.numbers_of(each.gradients).copy_(gradient);
    taken.push_back({.used = true, .ids = each.ids, .values = each.gradients.data_ptr<float>()});
  }
  return taken;
}

void ServedParameters::update(parameter_servers::RowClient& client) {
  if (parameters_.empty()) return;
  std::vector<parameter_servers::WantedRows> wanted;
  for (auto& each : parameters_) {
    wanted.push_back({.table = each.table, .ids = each.ids, .rows = each.slices.data_ptr<float>()});
  }
  client.fetch(wanted);
  const torch::NoGradGuard no_grad;
  for (auto& each : parameters_) each.value.copy_(each.numbers_of(each.slices));
}

ServedTables::ServedTables(const ParallelConfig& config, const torch::nn::Module& module, TablePlace place)
    : place_(std::move(place)),
      tables_(models::tables_elsewhere(module)),
      parameters_({}, {}, 0),
      is_synchronous_(!most_ahead(config.server)) {
  const auto served = served_parameters(config, module);
  share_first_values(served, place_.everyone);
  auto specs = table_specs(module);
  const auto slices = slice_specs(config.server, served);
  parameters_ = ServedParameters(served, slices, specs.size());
  specs.insert(specs.end(), slices.begin(), slices.end());
  client_ = std::make_shared<parameter_servers::RowClient>(
      place_.pairs, std::move(specs),
      parameter_servers::ClientOptions{.partition = parameter_servers::parse_partition(config.server.partition),
                                       .step = place_.step,
                                       .replicas = static_cast<int>(config.server.replicas),
                                       .cache_rows = config.server.cache_rows});
  for (const auto& [name, table] : tables_) {
    table->distant()->name = name;
    table->distant()->home = client_;
  }
}

void ServedTables::update(double lr, double scale) {
  std::vector<models::RowGradients> of_tables;
  std::vector<parameter_servers::GradientsOfTable> gradients;
  of_tables.reserve(tables_.size());
  for (const auto& each : tables_) {
    const auto& taken = of_tables.emplace_back(models::take_gradients(*each.table->distant(), each.table->shape().dim));
    gradients.push_back({.used = taken.used, .ids = taken.rows.ids, .values = taken.rows.values.data()});
  }
  const auto of_parameters = parameters_.take_gradients();
  gradients.insert(gradients.end(), of_parameters.begin(), of_parameters.end());
  client_->push(gradients, lr, scale);
  // With recovery, a worker completes a step only when all servers have it; without recovery, the next fetch waits for
  // that.
  if (is_synchronous_ && can_rejoin(place_.everyone)) client_->confirm();
  parameters_.update(*client_);
}

void ServedTables::refresh() {
  if (is_synchronous_) return;
  client_->confirm();
  parameters_.update(*client_);
}

std::vector<RemoteTensor> ServedTables::tensors() {
  std::vector<RemoteTensor> tensors;
  for (const auto& [name, table] : tables_) {
    const auto read = [client = client_, name = name](std::int64_t first, std::int64_t count) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
      std::iota(ids.begin(), ids.end(), first);
      return client->fetch(name, ids);
    };
    tensors.push_back({.name = name, .rows = table->shape().rows, .dim = table->shape().dim, .read = read});
  }
  return tensors;
}

SavedState ServedTables::saved(NamedTensors own) {
  if (place_.everyone.rank() == 0) client_->save();
  return held_by_some(std::move(own), place_.everyone);
}

}  // namespace lockstep::train
