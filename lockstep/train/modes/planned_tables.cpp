// The facts about embedding tables for the planner: shapes and states, and distinct rows counted in training samples.
#include <lockstep/base/error.h>
#include <lockstep/models/remote_rows.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/planned_tables.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/served/table_rules.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostCounted = 1 << 16;

struct CountedRows {
  std::int64_t rows = 0;
  std::string where;
};

// Samples spread over the data set, like a shuffled batch.
CountedRows count_rows(const samples::Dataset& data, std::int64_t samples, std::uint64_t seed) {
  const auto read = std::min({samples, data.size(), kMostCounted});
  std::unordered_set<std::int64_t> rows;
  for (std::int64_t i = 0; i < read; ++i) {
    const auto index = i * (data.size() / read);
    const auto ids = data.collate({data.get(index, samples::Chance(seed, 0, index))})[samples::kIds].contiguous();
    const auto* id = ids.data_ptr<std::int64_t>();
    rows.insert(id, id + ids.numel());
  }
  return {static_cast<std::int64_t>(rows.size()), fmt::format("{} samples of the training data", read)};
}

// nullopt for an optimizer that is not a row optimizer.
std::optional<TableRules> find_rules(const OptimizerConfig& config, const torch::nn::Module& module) {
  try {
    return std::optional<TableRules>(std::in_place, config, module, NamedParameters());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    return std::nullopt;
  }
}

}  // namespace

std::optional<plan::TableQuestion> planned_tables(const RunConfig& config, const Program& program, int workers,
                                                  std::optional<int> servers) {
  auto served = config;  // so that the tables take no memory, however large they are
  served.parallel.mode = "parameter_server";
  const auto model = model_without_memory(served, program);
  const auto tables = models::tables_elsewhere(*model.module);
  if (tables.empty()) return std::nullopt;
  const auto rules = find_rules(config.optimizer, *model.module);
  if (!rules) return std::nullopt;
  const auto samples = std::max<std::int64_t>(1, samples_of_step(config, workers) / workers);
  const auto counted = count_rows(*program.data(data::Split::train), samples, config.system.seed);
  plan::TableQuestion question{.samples = samples,
                               .counted = counted.where,
                               .servers = servers.value_or(static_cast<int>(config.cluster.server_num.value_or(0))),
                               .replicas = static_cast<int>(config.parallel.server.replicas)};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto& shape = tables[i].table->shape();
    question.tables.push_back({.name = tables[i].name,
                               .rows = shape.rows,
                               .dim = shape.dim,
                               .states = static_cast<int>(rows::state_names(rules->settings(i).rule).size()),
                               .used = std::min(counted.rows, shape.rows)});
  }
  return question;
}

}  // namespace lockstep::train
