#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/parse.h>
#include <lockstep/servers/server.h>
#include <lockstep/train/checkpoint/resume.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/runtime.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/served/server_role.h>
#include <lockstep/train/served/table_rules.h>
#include <lockstep/train/sharded/held_by_some.h>
#include <lockstep/train/stop_signals.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostServers = 1 << 20;
constexpr std::string_view kTablesPart = "tables";
constexpr std::string_view kIds = ".ids";

// Tensors of a checkpoint:
//   "tables.<server>.<table>.ids"      int64 [n], of the rows that the server has made
//   "tables.<server>.<table>.rows.<k>" the next of these rows: [up to 4096, weights and states]
//   "tables.<server>.<table>.steps"    int64 [1]
NamedTensors tensors_of(std::vector<servers::Shard>& shards, int server) {
  NamedTensors tensors;
  for (auto& shard : shards) {
    const auto prefix = fmt::format("{}.{}.{}", kTablesPart, server, shard.table().name);
    tensors.emplace(prefix + ".steps", torch::full({1}, shard.steps(), torch::kLong));
    if (shard.size() == 0) continue;
    const auto ids = shard.ids();
    tensors.emplace(prefix + std::string(kIds),
                    torch::from_blob(const_cast<std::int64_t*>(ids.data()), {shard.size()}, torch::kLong));
    const auto width = static_cast<std::int64_t>(shard.width());
    for (std::size_t k = 0; k < shard.blocks(); ++k) {
      const auto block = shard.block(k);
      tensors.emplace(
          fmt::format("{}.rows.{}", prefix, k),
          torch::from_blob(block.data(), {static_cast<std::int64_t>(block.size()) / width, width}, torch::kFloat));
    }
  }
  return tensors;
}

/// Takes the rows of this server out of those of one server of the run that saved them.
void load_rows(StateSource& source, const std::string& prefix, servers::Shard& shard,
               const std::function<bool(std::int64_t)>& is_own) {
  const auto ids = source.read(prefix + std::string(kIds));
  const auto* id = ids.data_ptr<std::int64_t>();
  const auto width = static_cast<std::int64_t>(shard.width());
  std::int64_t next = 0;
  for (std::size_t k = 0; next < ids.numel(); ++k) {
    const auto block = source.read(fmt::format("{}.rows.{}", prefix, k)).contiguous();
    if (block.dim() != 2 || block.size(1) != width || block.size(0) > ids.numel() - next) {
      fail(ErrorKind::data, "checkpoint",
           "the rows of {} have {} numbers with their state in the checkpoint, and {} in this run; resume with the "
           "model and the optimizer that wrote it",
           shard.table().name, block.dim() == 2 ? block.size(1) : 0, width);
    }
    const auto* row = block.data_ptr<float>();
    for (std::int64_t i = 0; i < block.size(0); ++i, ++next) {
      if (id[next] < 0 || id[next] >= shard.table().rows) {
        fail(ErrorKind::data, "checkpoint", "row {} of {} is none of its {}", id[next], shard.table().name,
             shard.table().rows);
      }
      if (is_own(id[next])) shard.put(id[next], {row + i * width, static_cast<std::size_t>(width)});
    }
  }
}

void load(StateSource& source, std::vector<servers::Shard>& shards, servers::Partition partition, int server,
          int servers) {
  for (auto& shard : shards) {
    const auto& table = shard.table();
    const auto ids_name = table.name + std::string(kIds), steps_name = table.name + ".steps";
    bool found = false;
    for (const auto& [name, outline] : source.outline(kTablesPart)) {
      const auto dot = name.find('.');
      const auto rest = name.substr(dot + 1);  // without the server
      const auto prefix = fmt::format("{}.{}.{}", kTablesPart, name.substr(0, dot), table.name);
      if (rest == steps_name) {
        found = true;
        shard.set_steps(std::max(shard.steps(), source.read(prefix + ".steps").item<std::int64_t>()));
      }
      if (rest != ids_name) continue;
      load_rows(source, prefix, shard,
                [&](std::int64_t id) { return server_of(partition, table, id, servers) == server; });
    }
    if (found) continue;
    fail(ErrorKind::data, "checkpoint",
         "the checkpoint has no rows of {} from parameter servers; it is of another parallel.mode or model",
         table.name);
  }
}

/// With the workers, whose folder and state count.
void save(std::vector<servers::Shard>& shards, int server, const Group& everyone) {
  ShardedSave save({}, held_by_some(tensors_of(shards, server), everyone), {}, SavedValues::in_place);
  save.write();
  save.commit();
}

}  // namespace

int count_of_servers(const RunConfig& config) {
  const auto environment = current_environment();
  const auto started = find_integer(environment, "LOCKSTEP_SERVERS", 0, kMostServers).value_or(0);
  if (!is_served_mode(config.parallel)) {
    if (started == 0) return 0;
    fail(ErrorKind::config, "parallel.mode",
         "is {}, and {} of the processes were started as parameter servers; set parallel.mode=parameter_server, or "
         "leave out --servers",
         config.parallel.mode, started);
  }
  auto count = started;
  if (count == 0) {
    count = find_integer(environment, "MS_SERVER_NUM", 0, kMostServers).value_or(config.cluster.server_num.value_or(0));
  }
  if (count == 0) log_info("no parameter servers: each rank has all tables in its own memory");
  return static_cast<int>(count);
}

void serve_run(const RunConfig& config, const Program& program, const servers::Division& division,
               const Group& everyone) {
  const StopSignals left_to_workers;
  const auto server = everyone.rank() - division.workers;
  const auto partition = servers::parse_partition(config.parallel.server.partition);
  std::vector<servers::Shard> shards;
  std::optional<TableRules> rules;
  {
    const auto model = make_model(config, program, torch::kCPU);
    rules.emplace(config.optimizer, *model.module);
    for (const auto& table : table_specs(*model.module)) shards.emplace_back(table, rules->settings(shards.size()));
  }
  if (shards.empty()) {
    fail(ErrorKind::config, "parallel.mode",
         "is parameter_server, and {} has no tables; set parallel.mode=data_parallel", config.model.name);
  }
  std::int64_t step = 0;
  if (auto resumed = find_resume_point(config, everyone)) {
    load(resumed->tensors, shards, partition, server, division.servers);
    step = resumed->state.step;
  }
  log_info("server {} of {}: {} table(s), rows by {}, after step {}", server, division.servers, shards.size(),
           config.parallel.server.partition, step);
  servers::ServerOptions options;
  options.server = server;
  options.mean = config.parallel.gradients_mean;
  options.limit = everyone.timeout();
  options.update = [&](std::size_t table, double lr, std::int64_t number) { return rules->update(table, lr, number); };
  options.completed = [&](std::int64_t completed) { completed_step(everyone, completed); };
  options.save = [&](std::int64_t) { save(shards, server, everyone); };
  const auto report = servers::serve(division.pairs, shards, options, step);
  log_info("server {}: done; {} rows in {:.1f} MB, {} rows pulled, {} rows of gradients pushed", server, report.rows,
           static_cast<double>(report.bytes) / 1e6, report.pulled, report.pushed);
}

}  // namespace lockstep::train
