// The cost of embedding tables in bytes, time and memory for three ways of training, the choice among them, and the
// advice as text and as JSON.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/tables/table_advice.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace lockstep::plan {
namespace {

constexpr double kNumber = sizeof(float);
constexpr double kId = sizeof(std::int64_t);
constexpr double kRoundTrips = 2;  // rows of a step, and their gradients

// Sums over the tables of a question.
struct TableSums {
  double weights = 0;       // numbers of all rows
  double kept = 0;          // the same with the optimizer's
  double ids = 0;           // of the rows that a worker uses
  double used_weights = 0;  // numbers of these rows
  double used_kept = 0;     // the same with the optimizer's
};

TableSums sums_of(const std::vector<PlannedTable>& tables) {
  TableSums sums;
  for (const auto& each : tables) {
    const auto weights = static_cast<double>(each.rows) * static_cast<double>(each.dim);
    const auto used = static_cast<double>(each.used) * static_cast<double>(each.dim);
    sums.weights += weights;
    sums.kept += weights * (1 + each.states);
    sums.ids += static_cast<double>(each.used);
    sums.used_weights += used;
    sums.used_kept += used * (1 + each.states);
  }
  return sums;
}

// A gradient is written and read, weights and state are read and written.
Seconds updating(double gradients, double kept, const Device& device) {
  return Bytes{2 * kNumber * (gradients + kept)} / device.memory_bandwidth;
}

TableCost of_whole_gradients(const TableSums& sums, const Cluster& cluster, const AxisSpan& workers) {
  const Bytes gradients{kNumber * sums.weights};
  const double others = workers.ranks - 1;
  return {.way = TableWay::whole,
          .sent = 2 * others / workers.ranks * gradients,
          .communication = collective_time(Collective::all_reduce, workers, gradients, cluster),
          .update = updating(sums.weights, sums.kept, cluster.device),
          .worker_memory = Bytes{kNumber * (sums.weights + sums.kept)}};
}

TableCost of_rows(const TableSums& sums, const Cluster& cluster, const AxisSpan& workers) {
  const Bytes own{kId * sums.ids + kNumber * sums.used_weights};
  const double ranks = workers.ranks;
  return {.way = TableWay::rows,
          .sent = (ranks - 1) * own,
          .communication = collective_time(Collective::all_gather, workers, ranks * own, cluster),
          .update = updating(ranks * sums.used_weights, ranks * sums.used_kept, cluster.device),
          .worker_memory = Bytes{kNumber * (sums.kept + ranks * sums.used_weights)}};
}

// The bytes on the busiest link in one direction: that of a process within a node, or of a node with servers.
Seconds travelling(Bytes of_worker, int servers, const Cluster& cluster) {
  const double workers = cluster.devices();
  if (cluster.nodes == 1) {
    const double shares = std::max(1.0, workers / servers);
    return shares * of_worker / cluster.intra_node.bandwidth + 2 * kRoundTrips * cluster.intra_node.latency;
  }
  const double nodes = cluster.nodes;
  const double nodes_with_servers = std::min<double>(servers, nodes);
  const auto across = workers * (nodes - 1) / nodes / nodes_with_servers * of_worker;
  return across / cluster.inter_node.bandwidth + 2 * kRoundTrips * cluster.inter_node.latency;
}

TableCost of_servers(const TableSums& sums, const Cluster& cluster, int servers, int replicas) {
  const Bytes rows{kId * sums.ids + kNumber * sums.used_weights};  // ids out, rows in; then both out, to each replica
  const Bytes sent = Bytes{kId * sums.ids} + static_cast<double>(replicas) * rows;
  const Bytes of_worker = sent + Bytes{kNumber * sums.used_weights};
  const double shares = static_cast<double>(cluster.devices()) * replicas / servers;
  return {.way = TableWay::servers,
          .sent = sent,
          .communication = travelling(of_worker, servers, cluster),
          .update = updating(shares * sums.used_weights, shares * sums.used_kept, cluster.device),
          .worker_memory = Bytes{kNumber * 2 * sums.used_weights},
          .server_memory = Bytes{kNumber * sums.kept * replicas / servers}};
}

int servers_for(const TableSums& sums, const TableQuestion& question, const Cluster& cluster) {
  if (question.servers > 0) return question.servers;
  const double needed = std::ceil(kNumber * sums.kept * question.replicas / cluster.device.memory.value);
  return std::max({cluster.nodes, question.replicas, static_cast<int>(std::min<double>(needed, kMostDevices))});
}

// Servers are additional processes, which on a CPU use the workers' cores, so they must at least halve the time.
TableWay best_of(const std::array<TableCost, 3>& costs) {
  constexpr double kWorthwhile = 0.5;
  const TableCost* best = nullptr;
  for (const auto& each : costs) {
    const double wanted = each.way == TableWay::servers ? kWorthwhile : 1;
    if (each.fits && (best == nullptr || each.time() < wanted * best->time())) best = &each;
  }
  return best == nullptr ? TableWay::servers : best->way;
}

}  // namespace

std::string_view name(TableWay way) {
  switch (way) {
    case TableWay::whole: return "data parallel, whole gradients";
    case TableWay::rows: return "data parallel, rows";
    case TableWay::servers: return "parameter servers";
  }
  return "";
}

std::string_view keys_of(TableWay way) {
  switch (way) {
    case TableWay::whole: return "parallel.mode=data_parallel parallel.sparse_gradients=dense";
    case TableWay::rows: return "parallel.mode=data_parallel model.sparse=true parallel.sparse_gradients=rows";
    case TableWay::servers: return "parallel.mode=parameter_server";
  }
  return "";
}

TableAdvice advise(const TableQuestion& question, const Cluster& cluster) {
  const auto sums = sums_of(question.tables);
  const std::array<int, 1> mesh{cluster.devices()};
  const auto workers = span_of_axis(cluster, mesh, 0);
  TableAdvice advice{.question = question,
                     .workers = cluster.devices(),
                     .servers = servers_for(sums, question, cluster),
                     .device_memory = cluster.device.memory,
                     .costs = {}};
  advice.costs = {of_whole_gradients(sums, cluster, workers), of_rows(sums, cluster, workers),
                  of_servers(sums, cluster, advice.servers, question.replicas)};
  for (auto& each : advice.costs) {
    each.fits = each.worker_memory <= advice.device_memory && each.server_memory <= advice.device_memory;
  }
  advice.best = best_of(advice.costs);
  return advice;
}

namespace {

std::string tables_text(const TableAdvice& advice) {
  std::string text;
  for (const auto& each : advice.question.tables) {
    text += fmt::format(
        "  {}: {} rows of {} numbers, {} with the optimizer's; {} rows in a worker's step\n", each.name, each.rows,
        each.dim,
        shown(Bytes{4.0 * (1 + each.states) * static_cast<double>(each.rows) * static_cast<double>(each.dim)}),
        each.used);
  }
  return text;
}

std::string ways_text(const TableAdvice& advice) {
  auto text = fmt::format("  {:<31} {:>10} {:>14} {:>10} {:>12} {:>12}\n", "tables", "sent", "communication", "update",
                          "a worker has", "a server has");
  for (const auto& each : advice.costs) {
    text +=
        fmt::format("  {:<31} {:>10} {:>14} {:>10} {:>12} {:>12}{}\n", name(each.way), shown(each.sent),
                    shown(each.communication), shown(each.update), shown(each.worker_memory),
                    each.way == TableWay::servers ? shown(each.server_memory) : "-", each.fits ? "" : "  does not fit");
  }
  return text;
}

std::string reason(const TableAdvice& advice) {
  const auto& best = advice.costs.at(static_cast<std::size_t>(advice.best));
  if (!best.fits) {
    return fmt::format("nothing fits into {} a device; parameter servers fit with more servers, or more memory",
                       shown(advice.device_memory));
  }
  std::string text;
  for (const auto& each : advice.costs) {
    if (each.way == advice.best) continue;
    if (!text.empty()) text += "; ";
    if (!each.fits) {
      text += fmt::format("{} needs {} on a device of {}", name(each.way),
                          shown(std::max(each.worker_memory, each.server_memory)), shown(advice.device_memory));
    } else if (each.time() < best.time()) {
      text += fmt::format("{} would save less than half of the time, and need more processes", name(each.way));
    } else {
      text += fmt::format("{} takes {:.3g} times as long", name(each.way), each.time() / best.time());
    }
  }
  return text;
}

}  // namespace

std::string explain(const TableAdvice& advice) {
  return fmt::format(
      "Embedding tables, {} worker(s) with {} samples a step each (rows counted in {}):\n{}\nA step's work for the "
      "tables, with {} server(s) where there are any:\n{}\nBest for the tables: {}. {}.\nAs a run: {}\n",
      advice.workers, advice.question.samples, advice.question.counted, tables_text(advice), advice.servers,
      ways_text(advice), name(advice.best), reason(advice), keys_of(advice.best));
}

std::string advice_json(const TableAdvice& advice) {
  using Json = nlohmann::ordered_json;
  Json tables = Json::array();
  for (const auto& each : advice.question.tables) {
    tables.push_back({{"name", each.name}, {"rows", each.rows}, {"dim", each.dim}, {"used_rows", each.used}});
  }
  Json ways = Json::array();
  for (const auto& each : advice.costs) {
    ways.push_back({{"name", name(each.way)},
                    {"sent_bytes", each.sent.value},
                    {"communication_s", each.communication.value},
                    {"update_s", each.update.value},
                    {"worker_memory_bytes", each.worker_memory.value},
                    {"server_memory_bytes", each.server_memory.value},
                    {"fits", each.fits}});
  }
  return Json{{"workers", advice.workers},          {"servers", advice.servers},
              {"samples", advice.question.samples}, {"counted_in", advice.question.counted},
              {"tables", std::move(tables)},        {"ways", std::move(ways)},
              {"best", name(advice.best)},          {"keys", keys_of(advice.best)}}
             .dump(2) +
         "\n";
}

}  // namespace lockstep::plan
