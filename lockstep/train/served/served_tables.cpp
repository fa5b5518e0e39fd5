// The worker's client of parameter servers: gradients of tables and slices pushed after a step, values fetched back.
#include <lockstep/comm/rejoin.h>
#include <lockstep/state/sharded/sharded_save.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/served/table_rules.h>

#include <torch/torch.h>

#include <numeric>
#include <utility>

namespace lockstep::train {

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
