// The sequence of a parameter server: settings compared, rows from memory, checkpoint or first values, then serve;
// and the names of its rows in a checkpoint.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/observe.h>
#include <lockstep/parameter_servers/server.h>
#include <lockstep/state/sharded/save.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/served/rows_agreement.h>
#include <lockstep/train/served/served_tables.h>
#include <lockstep/train/server_role.h>

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

/// The number of servers that `lockstep run --servers` started.
std::int64_t servers_of_launcher(const Environment& environment) {
  return find_integer(environment, "LOCKSTEP_SERVERS", 0, kMostServers).value_or(0);
}

// Tensors of a checkpoint:
//   "tables.<server>.<table>.ids"      int64 [n], of the rows that the server has made
//   "tables.<server>.<table>.rows.<k>" the next of these rows: [some, weights and states]
//   "tables.<server>.<table>.steps"    int64 [1]
NamedTensors tensors_of(std::vector<parameter_servers::Shard>& shards, int server) {
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

/// Selects the rows of this server from those of one server of the run that saved them.
void load_rows(StateSource& source, const std::string& prefix, parameter_servers::Shard& shard,
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
           "model, the optimizer and the parallel.server.slice_kb that wrote it",
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

/// The rows of one part of the partition that this server stores.
void load(StateSource& source, std::vector<parameter_servers::Shard>& shards,
          const std::function<bool(const parameter_servers::TableSpec&, std::int64_t)>& is_own) {
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
      load_rows(source, prefix, shard, [&](std::int64_t id) { return is_own(table, id); });
    }
    if (found) continue;
    fail(ErrorKind::data, "checkpoint",
         "the checkpoint has no rows of {} from parameter servers; it is of another parallel.mode, "
         "parallel.server.parameters or model",
         table.name);
  }
}

/// A collective with the workers, whose folder and state are used.
void save(parameter_servers::HeldRows& rows, int server, const Group& everyone) {
  ShardedSave save({}, held_by_some(tensors_of(rows.parts.front(), server), everyone), {}, SavedValues::in_place);
  save.write();
  save.commit();
}

/// The data of a run's model on servers.
struct ServedModel {
  std::vector<parameter_servers::TableSpec> tables;  ///< then the slices of `parameters`
  TableRules rules;
  NamedParameters parameters;
};

ServedModel served_model(const ResolvedRun& config, const Program& program) {
  const auto model = make_model(config, program, torch::kCPU);
  auto parameters = served_parameters(config.parallel, *model.module);
  auto tables = table_specs(*model.module);
  for (auto& slices : slice_specs(config.parallel.server, parameters)) tables.push_back(std::move(slices));
  if (tables.empty()) {
    fail(ErrorKind::config, "parallel.mode",
         "is parameter_server, and {} has no tables for servers; set parallel.mode=data_parallel, or name other "
         "parameters in parallel.server.parameters",
         config.model.name);
  }
  TableRules rules(config, *model.module, parameters);
  return {std::move(tables), std::move(rules), std::move(parameters)};
}

parameter_servers::HeldRows without_rows(const ServedModel& model, std::int64_t replicas) {
  parameter_servers::HeldRows rows;
  for (std::int64_t part = 0; part < replicas; ++part) {
    auto& shards = rows.parts.emplace_back();
    for (std::size_t table = 0; table < model.tables.size(); ++table) {
      shards.emplace_back(model.tables[table], model.rules.settings(table));
    }
  }
  return rows;
}

/// The numbers of the parts that a server stores: 0, and with replicas also 1.
struct OwnParts {
  parameter_servers::Partition partition = parameter_servers::Partition::hash;
  int server = 0;
  int servers = 1;

  bool has(std::size_t part, const parameter_servers::TableSpec& table, std::int64_t id) const {
    return server_of(partition, table, id, servers) == parameter_servers::part_of(server, part == 1, servers);
  }
};

/// The initial values of parameters, from rank 0.
void set_first_values(const ServedModel& model, const OwnParts& own, parameter_servers::HeldRows& rows) {
  const auto tables = model.tables.size() - model.parameters.size();
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const auto& spec = model.tables[tables + i];
    const auto slices = slices_of(model.parameters[i].second, spec);
    const auto dim = static_cast<std::size_t>(spec.dim);
    for (std::size_t part = 0; part < rows.parts.size(); ++part) {
      for (std::int64_t id = 0; id < spec.rows; ++id) {
        if (!own.has(part, spec, id)) continue;
        rows.parts[part][tables + i].set_weights(id, {slices.data_ptr<float>() + id * spec.dim, dim});
      }
    }
  }
}

/// The initial rows of this server: rows that it has kept or gets from other servers, rows of the checkpoint from which
/// the workers continue, or first values. A collective with the workers. Returns whether the rows come from memory.
bool take_rows(const ResolvedRun& config, const ServedModel& model, const parameter_servers::Division& division,
               const OwnParts& own, const Group& everyone, std::optional<parameter_servers::HeldRows>& kept) {
  const int replicas = static_cast<int>(config.parallel.server.replicas);
  parameter_servers::ServerMemory memory;
  if (kept) memory = {.has_rows = true, .step = kept->step, .remembers = kept->remembers};
  const auto agreed = agree_with_workers(everyone, division.workers, replicas, memory);
  if (!kept || !agreed.step) kept = without_rows(model, replicas);
  auto resumed = agreed.step ? std::nullopt : find_resume_point(config, everyone);
  share_first_values(model.parameters, everyone);
  if (agreed.step) {
    follow(agreed, *kept, own.server, own.servers, everyone);
  } else if (resumed) {
    for (std::size_t i = 0; i < kept->parts.size(); ++i) {
      load(resumed->tensors, kept->parts[i], [&](const auto& table, std::int64_t id) { return own.has(i, table, id); });
    }
    kept->step = resumed->step;
  } else {
    set_first_values(model, own, *kept);
  }
  return agreed.step.has_value();
}

void trigger_once(std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place) {
  if (is_due(fault, rank, step, place)) trigger(std::exchange(fault, std::nullopt), rank, step, place);
}

}  // namespace

void require_mode_of_servers(const ResolvedRun& config) {
  const auto started = servers_of_launcher(current_environment());
  if (started == 0 || is_served_mode(config.parallel)) return;
  fail(ErrorKind::config, "parallel.mode",
       "is {}, and {} of the processes were started as parameter servers; set parallel.mode=parameter_server, or "
       "leave out --servers",
       config.parallel.mode, started);
}

int count_of_servers(const ResolvedRun& config) {
  require_mode_of_servers(config);
  if (!is_served_mode(config.parallel)) return 0;
  const auto environment = current_environment();
  auto count = servers_of_launcher(environment);
  if (count == 0) {
    count = find_integer(environment, "MS_SERVER_NUM", 0, kMostServers).value_or(config.cluster.server_num.value_or(0));
  }
  const auto configured = config.cluster.server_num;
  if (count > 0 && configured && *configured != count) {
    fail(ErrorKind::config, "cluster.server_num", "is {}, and {} servers were started; leave one of the two out",
         *configured, count);
  }
  if (count == 0) {
    log_info("no parameter servers: each rank has all tables in its own memory, and parallel.server has no effect");
  }
  return static_cast<int>(count);
}

std::optional<int> serve_run(const ResolvedRun& config, const Program& program,
                             const parameter_servers::Division& division, const Group& everyone, KeptRows& kept) {
  TrainingProgress shown;
  shown.serves = true;
  report_training(everyone, shown);
  require_same_settings(common_settings(config), everyone);
  const auto& settings = config.parallel.server;
  const OwnParts own{.partition = parameter_servers::parse_partition(settings.partition),
                     .server = everyone.rank() - division.workers,
                     .servers = division.servers};
  if (settings.replicas > 1 && division.servers < 2) {
    fail(ErrorKind::config, "parallel.server.replicas", "is {}, and there is one server; start two or more",
         settings.replicas);
  }
  auto model = served_model(config, program);
  const bool from_memory = take_rows(config, model, division, own, everyone, kept.rows);
  model.parameters.clear();  // the rows hold their values
  auto& rows = *kept.rows;
  log_info("server {} of {}: {} table(s), rows by {}, after step {}{}", own.server, own.servers, model.tables.size(),
           settings.partition, rows.step, from_memory ? ", from memory" : "");
  const auto fault_at = [&](FaultPlace place) {
    return [&, place](std::int64_t step) { trigger_once(kept.fault, everyone.rank(), step, place); };
  };
  parameter_servers::ServerOptions options;
  options.server = own.server;
  options.most_ahead = most_ahead(settings);
  options.mean = config.parallel.gradients_mean;
  options.limit = everyone.timeout();
  options.remembers_step = can_rejoin(everyone) && !options.most_ahead;
  options.update = [&](std::size_t table, double lr, std::int64_t number) {
    return model.rules.update(table, lr, number);
  };
  options.asked = fault_at(FaultPlace::forward);
  options.gathered = fault_at(FaultPlace::reduced);
  options.completed = [&](std::int64_t step) {
    completed_step(everyone, step);
    trigger_once(kept.fault, everyone.rank(), step, FaultPlace::updated);
  };
  options.save = [&](std::int64_t step) {
    trigger_once(kept.fault, everyone.rank(), step, FaultPlace::save);
    try {
      save(rows, own.server, everyone);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::io) throw;  // as workers do (Session::tolerate_full_disk)
      log_error("no checkpoint after step {}, serving goes on: {}", step, error.message());
    }
  };
  const auto report = parameter_servers::serve(division.pairs, rows, options);
  log_info("server {}: done; {} rows in {:.1f} MB, {} rows pulled, {} rows of gradients pushed", own.server,
           report.rows, static_cast<double>(report.bytes) / 1e6, report.pulled, report.pushed);
  return report.ended_by;
}

}  // namespace lockstep::train
