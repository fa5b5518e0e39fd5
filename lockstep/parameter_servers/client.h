// The client of a worker: pulls rows from parameter servers, and pushes gradients to them.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/models/remote_rows.h>
#include <lockstep/parameter_servers/wire.h>
#include <lockstep/rows/sparse_rows.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::parameter_servers {

/// A cache of the first rows of all tables that were put, up to a maximum number, valid as long as no step changes
/// them: for evaluations, whose batches share many rows. In training, every row that is read changes in the same step.
/// Not thread-safe.
class RowCache {
 public:
  /// `dims`: numbers of a row, by table.
  RowCache(std::size_t rows, std::vector<std::size_t> dims);

  /// Removes all rows unless they are of that step.
  void begin(std::int64_t step);

  /// The row, if it is cached. The memory is valid until the next put() or begin().
  const float* find(std::size_t table, std::int64_t id) const;

  /// Stores the row, if the cache is not full.
  void put(std::size_t table, std::int64_t id, const float* row);

  std::size_t size() const { return size_; }

 private:
  struct Table {
    std::size_t dim;
    std::unordered_map<std::int64_t, std::size_t> slots;
    std::vector<float> rows;
  };

  std::size_t most_;
  std::size_t size_ = 0;
  std::int64_t step_ = -1;
  std::vector<Table> tables_;
};

struct ClientOptions {
  Partition partition = Partition::hash;
  std::int64_t step = 0;        ///< completed steps
  int replicas = 1;             ///< 2: each server has a copy of the rows of the server before it
  std::int64_t cache_rows = 0;  ///< size of the cache of rows, valid while no step changes them
};

/// The rows of a request.
struct WantedRows {
  std::size_t table = 0;
  std::span<const std::int64_t> ids;  ///< ascending, each once
  float* rows = nullptr;              ///< receives the rows: [ids, dim]
};

/// Gradients of a table: `dim` numbers for each of the ids, which ascend, each once.
struct GradientsOfTable {
  bool used = false;  ///< some backward pass had a gradient for it, perhaps without rows
  std::span<const std::int64_t> ids;
  const float* values = nullptr;
};

/// Not thread-safe. Errors name server, table and step: those of Work::wait.
class RowClient final : public models::RowHome {
 public:
  /// `pairs` are by server.
  RowClient(std::vector<Group> pairs, std::vector<TableSpec> tables, const ClientOptions& options);

  /// The rows after the steps that were pushed. Waits until servers have the gradients of the other workers for these
  /// steps. Under torch::NoGradGuard, the rows come from the cache, if it is enabled.
  at::Tensor fetch(const std::string& table, std::span<const std::int64_t> ids) override;

  /// The same for several tables at a time, and without the cache.
  void fetch(std::span<const WantedRows> wanted);

  /// Ends a step: sends its gradients, by table, to every server, even where there are none. `scale`: of their mean
  /// over workers. Every worker calls it once in each step.
  void push(std::span<const GradientsOfTable> gradients, double lr, double scale);

  /// Waits until all servers have the gradients of all workers for the last step that was pushed. Afterwards every
  /// server can complete this step, even if a process is lost.
  void confirm();

  /// Makes every server take part in a save of workers and servers together, with the rows after the steps that were
  /// pushed. One worker calls it for all.
  void save();

  /// Ends the requests of this worker. Every worker calls it at the end; servers end when all workers have called it.
  /// `ended_by`: the signal that ended the run early, if any.
  void finish(std::optional<int> ended_by = {});

  std::int64_t step() const { return step_; }
  const std::vector<TableSpec>& tables() const { return tables_; }

 private:
  struct Part;

  void fetch_through_cache(const WantedRows& wanted);
  std::size_t index_of(const std::string& table) const;
  std::vector<Part> parts_of(std::size_t table, std::span<const std::int64_t> ids) const;
  void tell_all(const HeaderWords& words) const;
  [[noreturn]] void rethrow_with_place(std::size_t server, const std::string& table) const;

  std::vector<Group> pairs_;
  std::vector<TableSpec> tables_;
  ClientOptions options_;
  std::int64_t step_;
  std::optional<RowCache> cache_;
};

}  // namespace lockstep::parameter_servers
