// A parameter server: it has its rows of all tables, answers workers, and makes the update of a step once the gradients
// of all workers are there.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/held_rows.h>
#include <lockstep/rows/row_rule.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep::parameter_servers {

struct ServerOptions {
  int server = 0;    ///< which, from 0
  bool mean = true;  ///< gradients are divided by the number of workers; only without `most_ahead`
  /// Workers are apart: gradients of a worker become an update when they come, and it may be so many steps ahead of the
  /// slowest that has not finished. nullopt: a step has the gradients of all workers.
  std::optional<std::int64_t> most_ahead{};
  std::chrono::milliseconds limit{};  ///< for the gradients of the other workers; half as long again for a message
  /// The numbers of one step of a table (its index), from the scheduled learning rate and the table's own count of
  /// steps. Called by one thread at a time.
  std::function<rows::RowUpdate(std::size_t table, double lr, std::int64_t step)> update;
  bool remembers_step = false;  ///< the last step can be taken back: for recovery
  /// Called, if there is one, when rows of a step are asked for; with all its gradients; and when it is complete: with
  /// its number, from 1, by one thread at a time.
  std::function<void(std::int64_t step)> asked;
  std::function<void(std::int64_t step)> gathered;
  std::function<void(std::int64_t step)> completed;
  /// Saves the rows after that step, together with the workers. Rows may be read meanwhile, and do not change.
  std::function<void(std::int64_t step)> save;
};

/// What a server has done.
struct ServerReport {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  std::int64_t pulled = 0;        ///< rows sent to workers
  std::int64_t pushed = 0;        ///< rows of gradients from workers
  std::optional<int> ended_by{};  ///< the signal that ended the run early
};

/// Serves until every worker has finished. `pairs` are by worker. Error(invalid_argument) for `most_ahead` with copies.
///
/// Gradients are added in the order of workers, whatever the order of their coming: the sum of sparse rows over the
/// ranks of data parallel (rows::sum_over_ranks), divided alike. A request for rows after step t waits until
/// step t is complete. Where workers are apart, there is no order, and what comes out is another each time; a request
/// to save, or to confirm, still waits for the gradients of all. Memory: the rows, and the gradients of one step.
///
/// One thread for each worker. The first error ends the job: it is told to all ranks and thrown here, and `rows` are
/// then those after the last complete step. Error(timeout) names server, table, step, and the workers whose gradients
/// are missing; Error(data) is of a malformed request.
ServerReport serve(const std::vector<Group>& pairs, HeldRows& rows, const ServerOptions& options);

}  // namespace lockstep::parameter_servers
