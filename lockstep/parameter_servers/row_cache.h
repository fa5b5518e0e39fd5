// A worker's cache of rows, valid as long as no step changes them: for evaluations, whose batches share many rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace lockstep::parameter_servers {

/// The first rows of all tables that were put, up to a maximum number. Not for training, where every row that is read
/// changes in the same step. Not thread-safe.
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

}  // namespace lockstep::parameter_servers
