// The choice for embedding tables, of which a step uses few rows: whole gradients, gradients of rows, or parameter
// servers. Pure.
#pragma once

#include <lockstep/plan/cluster.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plan {

/// A table, and its use in a step.
struct PlannedTable {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  int states = 0;         ///< numbers that the optimizer keeps for each weight
  std::int64_t used = 0;  ///< different rows that the samples of one worker have in a step
};

struct TableQuestion {
  std::vector<PlannedTable> tables{};
  std::int64_t samples = 0;  ///< of one worker in a step
  std::string counted;       ///< the source of `used`: "the first 256 samples of the training data"
  int servers = 0;           ///< 0: as many as the rows need, at least one on each node
  int replicas = 1;          ///< of each server's rows
};

enum class TableWay { whole, rows, servers };
/// "data parallel, whole gradients", "data parallel, rows", "parameter servers".
std::string_view name(TableWay way);
/// The keys of a run's configuration that choose it.
std::string_view keys_of(TableWay way);

/// The tables' part of a step, and of memory.
struct TableCost {
  TableWay way = TableWay::whole;
  Bytes sent{};             ///< by one worker in a step
  Seconds communication{};  ///< sending and receiving
  Seconds update{};         ///< reading and writing gradients, weights and optimizer state
  Bytes worker_memory{};    ///< of each worker
  Bytes server_memory{};    ///< of each server
  bool fits = true;         ///< into the memory of a device, on workers and servers

  Seconds time() const { return communication + update; }
};

struct TableAdvice {
  TableQuestion question;
  int workers = 1;
  int servers = 1;  ///< the number of servers in `costs`
  Bytes device_memory{};
  std::array<TableCost, 3> costs;
  TableWay best = TableWay::whole;  ///< the fastest that fits; servers only for half the time, or if no other fits
};

/// The costs on a cluster with a worker on each device and the servers spread over its nodes, which share the nodes'
/// links. Gradients are not hidden behind the backward phase: tables are mostly the first layer.
TableAdvice advise(const TableQuestion& question, const Cluster& cluster);

/// The text for people: the tables, the three ways, the best way and the reason.
std::string explain(const TableAdvice& advice);

/// The same for programs: a JSON object with tables, ways and best.
std::string advice_json(const TableAdvice& advice);

}  // namespace lockstep::plan
