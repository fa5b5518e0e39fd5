// A parameter server: it stores its rows of all tables, serves workers, and updates rows once it has the gradients of
// all workers for a step.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/server_rows.h>
#include <lockstep/rows/row_rule.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep::parameter_servers {

struct ServerOptions {
  int server = 0;    ///< index of this server, from 0
  bool mean = true;  ///< gradients are divided by the number of workers; only without `most_ahead`
  /// Asynchronous workers: gradients of a worker become an update on arrival, and a worker may be this many steps ahead
  /// of the slowest unfinished worker. nullopt: synchronous, a step has the gradients of all workers.
  std::optional<std::int64_t> most_ahead{};
  std::chrono::milliseconds limit{};  ///< for the gradients of the other workers; 1.5 times as long for a message
  /// The numbers of one step of a table (its index), from the scheduled learning rate and the table's own count of
  /// steps. Called by one thread at a time.
  std::function<rows::RowUpdate(std::size_t table, double lr, std::int64_t step)> update;
  bool remembers_step = false;  ///< the last step can be undone: for recovery
  /// May be empty. Called when a worker requests rows of a step; when all gradients of a step are there; and when a
  /// step is complete: with the number of the step, from 1, by one thread at a time.
  std::function<void(std::int64_t step)> asked;
  std::function<void(std::int64_t step)> gathered;
  std::function<void(std::int64_t step)> completed;
  /// Saves the rows after that step, together with the workers. Rows may be read meanwhile, and do not change.
  std::function<void(std::int64_t step)> save;
};

/// The statistics of a server.
struct ServerReport {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  std::int64_t pulled = 0;        ///< rows sent to workers
  std::int64_t pushed = 0;        ///< rows of gradients from workers
  std::optional<int> ended_by{};  ///< the signal that ended the run early
};

/// Serves until every worker has finished. `pairs` are by worker. Error(invalid_argument) for `most_ahead` with copies.
///
/// Gradients are added in the order of workers, independent of their order of arrival: the same sum and division as for
/// sparse rows of data parallel (rows::sum_over_ranks). A request for rows after step t waits until step t is complete.
/// With asynchronous workers the order is undefined, and results differ between runs; a request to save, or to confirm,
/// still waits for the gradients of all workers. Memory: the rows, and the gradients of one step.
///
/// One thread for each worker. The first error ends the job: it is reported to all ranks and thrown here, and `rows`
/// are then those after the last complete step. Error(timeout) names server, table, step, and the workers whose
/// gradients are missing; Error(data) is of a malformed request.
ServerReport serve(const std::vector<Group>& pairs, HeldRows& rows, const ServerOptions& options);

}  // namespace lockstep::parameter_servers
