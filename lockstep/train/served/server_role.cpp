#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/parse.h>
#include <lockstep/comm/rejoin.h>
#include <lockstep/servers/server.h>
#include <lockstep/train/checkpoint/resume.h>
#include <lockstep/train/configuration/same_settings.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/runtime.h>
#include <lockstep/train/served/rows_agreement.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/served/server_role.h>
#include <lockstep/train/served/table_rules.h>
#include <lockstep/train/sharded/held_by_some.h>

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

/// Processes that `lockstep run --servers` started.
std::int64_t servers_of_launcher(const Environment& environment) {
  return find_integer(environment, "LOCKSTEP_SERVERS", 0, kMostServers).value_or(0);
}

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

/// The rows of one part: those that this server has in the partition.
void load(StateSource& source, std::vector<servers::Shard>& shards, servers::Partition partition, int part,
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
                [&](std::int64_t id) { return server_of(partition, table, id, servers) == part; });
    }
    if (found) continue;
    fail(ErrorKind::data, "checkpoint",
         "the checkpoint has no rows of {} from parameter servers; it is of another parallel.mode or model",
         table.name);
  }
}

/// With the workers, whose folder and state count.
void save(servers::HeldRows& rows, int server, const Group& everyone) {
  ShardedSave save({}, held_by_some(tensors_of(rows.parts.front(), server), everyone), {}, SavedValues::in_place);
  save.write();
  save.commit();
}

servers::HeldRows without_rows(const std::vector<servers::TableSpec>& tables, const TableRules& rules, int replicas) {
  servers::HeldRows rows;
  for (int part = 0; part < replicas; ++part) {
    auto& shards = rows.parts.emplace_back();
    for (std::size_t table = 0; table < tables.size(); ++table) {
      shards.emplace_back(tables[table], rules.settings(table));
    }
  }
  return rows;
}

void trigger_once(std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place) {
  if (is_due(fault, rank, step, place)) trigger(std::exchange(fault, std::nullopt), rank, step, place);
}

}  // namespace

void require_mode_of_servers(const RunConfig& config) {
  const auto started = servers_of_launcher(current_environment());
  if (started == 0 || is_served_mode(config.parallel)) return;
  fail(ErrorKind::config, "parallel.mode",
       "is {}, and {} of the processes were started as parameter servers; set parallel.mode=parameter_server, or "
       "leave out --servers",
       config.parallel.mode, started);
}

int count_of_servers(const RunConfig& config) {
  require_mode_of_servers(config);
  if (!is_served_mode(config.parallel)) return 0;
  const auto environment = current_environment();
  auto count = servers_of_launcher(environment);
  if (count == 0) {
    count = find_integer(environment, "MS_SERVER_NUM", 0, kMostServers).value_or(config.cluster.server_num.value_or(0));
  }
  if (count == 0) log_info("no parameter servers: each rank has all tables in its own memory");
  return static_cast<int>(count);
}

std::optional<int> serve_run(const RunConfig& config, const Program& program, const servers::Division& division,
                             const Group& everyone, KeptRows& kept) {
  require_same_settings(common_settings(config), everyone);
  const auto server = everyone.rank() - division.workers;
  const int replicas = static_cast<int>(config.parallel.server.replicas);
  std::vector<servers::TableSpec> tables;
  std::optional<TableRules> rules;
  {
    const auto model = make_model(config, program, torch::kCPU);
    rules.emplace(config.optimizer, *model.module);
    tables = table_specs(*model.module);
  }
  if (tables.empty()) {
    fail(ErrorKind::config, "parallel.mode",
         "is parameter_server, and {} has no tables; set parallel.mode=data_parallel", config.model.name);
  }
  if (replicas > 1 && division.servers < 2) {
    fail(ErrorKind::config, "parallel.server.replicas", "is {}, and there is one server; start two or more", replicas);
  }
  servers::ServerMemory memory;
  if (kept.rows) memory = {.has_rows = true, .step = kept.rows->step, .remembers = kept.rows->remembers};
  const auto agreed = agree_with_workers(everyone, division.workers, replicas, memory);
  if (!kept.rows || !agreed.step) kept.rows = without_rows(tables, *rules, replicas);
  auto& rows = *kept.rows;
  if (agreed.step) {
    follow(agreed, rows, server, division.servers, everyone);
  } else if (auto resumed = find_resume_point(config, everyone)) {
    const auto partition = servers::parse_partition(config.parallel.server.partition);
    for (std::size_t i = 0; i < rows.parts.size(); ++i) {
      load(resumed->tensors, rows.parts[i], partition, servers::part_of(server, i == 1, division.servers),
           division.servers);
    }
    rows.step = resumed->state.step;
  }
  log_info("server {} of {}: {} table(s), rows by {}, after step {}{}", server, division.servers, tables.size(),
           config.parallel.server.partition, rows.step, agreed.step ? ", from memory" : "");
  const auto fault_at = [&](FaultPlace place) {
    return [&, place](std::int64_t step) { trigger_once(kept.fault, everyone.rank(), step, place); };
  };
  servers::ServerOptions options;
  options.server = server;
  options.mean = config.parallel.gradients_mean;
  options.limit = everyone.timeout();
  options.remembers_step = can_rejoin(everyone);
  options.update = [&](std::size_t table, double lr, std::int64_t number) { return rules->update(table, lr, number); };
  options.asked = fault_at(FaultPlace::forward);
  options.gathered = fault_at(FaultPlace::reduced);
  options.completed = [&](std::int64_t step) {
    completed_step(everyone, step);
    trigger_once(kept.fault, everyone.rank(), step, FaultPlace::updated);
  };
  options.save = [&](std::int64_t step) {
    trigger_once(kept.fault, everyone.rank(), step, FaultPlace::save);
    save(rows, server, everyone);
  };
  const auto report = servers::serve(division.pairs, rows, options);
  log_info("server {}: done; {} rows in {:.1f} MB, {} rows pulled, {} rows of gradients pushed", server, report.rows,
           static_cast<double>(report.bytes) / 1e6, report.pulled, report.pushed);
  return report.ended_by;
}

}  // namespace lockstep::train
