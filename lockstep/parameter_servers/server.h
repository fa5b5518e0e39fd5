// A parameter server: it stores its rows of all tables, serves workers, and updates rows once it has the gradients of
// all workers for a step. The division of a job's ranks into workers, which train, and such servers; and the progress
// of the workers on a server.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/server_rows.h>
#include <lockstep/rows/row_rule.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
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

/// The last ranks of a job are its servers: of W + S ranks, server s is rank W + s.
struct Division {
  int workers = 0;
  int servers = 0;
  /// Of the workers, in the order of their ranks; nullopt on servers.
  std::optional<Group> group;
  /// A group of two for each connection, worker first: on a worker by server, on a server by worker.
  std::vector<Group> pairs;
};

/// Creates the groups of two for messages between servers and workers: shared memory on one host, else the backend of
/// `all`. A collective of all ranks. Error(config) when no worker is left.
Division divide(const Group& all, int servers);

/// Not thread-safe.
class WorkerClocks {
 public:
  /// All workers have completed `step` steps. A worker may be `most_ahead` steps ahead of the slowest unfinished
  /// worker.
  WorkerClocks(std::size_t workers, std::int64_t step, std::int64_t most_ahead)
      : completed_(workers, step), finished_(workers), most_ahead_(most_ahead) {}

  /// The gradients of this worker for its next step have arrived.
  void complete_step(std::size_t worker) { ++completed_[worker]; }
  /// The worker makes no further step, and no worker waits for it.
  void finish(std::size_t worker) { finished_[worker] = true; }

  /// Completed steps of one worker, and of the slowest of all.
  std::int64_t of(std::size_t worker) const { return completed_[worker]; }
  std::int64_t slowest() const { return *std::ranges::min_element(completed_); }

  /// The workers that must make progress before a worker with `step` completed steps may begin the next step.
  std::vector<std::size_t> awaited_to_begin(std::int64_t step) const {
    std::vector<std::size_t> awaited;
    for (std::size_t worker = 0; worker < completed_.size(); ++worker) {
      if (!finished_[worker] && step - completed_[worker] > most_ahead_) awaited.push_back(worker);
    }
    return awaited;
  }

  /// The workers that have not completed `step` steps.
  std::vector<std::size_t> behind(std::int64_t step) const {
    std::vector<std::size_t> behind;
    for (std::size_t worker = 0; worker < completed_.size(); ++worker) {
      if (completed_[worker] < step) behind.push_back(worker);
    }
    return behind;
  }

 private:
  std::vector<std::int64_t> completed_;
  std::vector<bool> finished_;
  std::int64_t most_ahead_;
};

}  // namespace lockstep::parameter_servers
