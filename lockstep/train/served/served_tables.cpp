#include <lockstep/comm/rejoin.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/served/table_rules.h>
#include <lockstep/train/sharded/held_by_some.h>

#include <torch/torch.h>

#include <numeric>
#include <utility>

namespace lockstep::train {

bool is_served_mode(const ParallelConfig& config) { return config.mode == "parameter_server"; }

ServedTables::ServedTables(const ParallelConfig& config, const torch::nn::Module& module, TablePlace place)
    : place_(std::move(place)),
      tables_(models::tables_elsewhere(module)),
      client_(std::make_shared<servers::Client>(place_.pairs, table_specs(module),
                                                servers::parse_partition(config.server.partition), place_.step,
                                                static_cast<int>(config.server.replicas))) {
  for (const auto& [name, table] : tables_) table->settle(name, client_);
}

void ServedTables::update(double lr, double scale) {
  std::vector<models::RowTableImpl::Gradient> gradients;
  gradients.reserve(tables_.size());
  for (const auto& each : tables_) gradients.push_back(each.table->take_gradient());
  client_->push(gradients, lr, scale);
  // A worker that has completed a step needs it in all rows; without recovery the next step's rows wait for that.
  if (can_rejoin(place_.everyone)) client_->confirm();
}

std::vector<DistantTensor> ServedTables::tensors() {
  std::vector<DistantTensor> tensors;
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
