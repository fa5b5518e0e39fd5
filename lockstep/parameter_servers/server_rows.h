// The rows of one parameter server, with their optimizer state: those of one table, and of all tables after one step.
#pragma once

#include <lockstep/parameter_servers/wire.h>
#include <lockstep/rows/row_rule.h>
#include <lockstep/rows/sparse_rows.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::parameter_servers {

/// The rows of one table, created at their first update. Not thread-safe.
class Shard {
 public:
  Shard(TableSpec table, const rows::RuleSettings& rule);

  const TableSpec& table() const { return table_; }
  std::size_t dim() const { return dim_; }
  /// Numbers of a row with its state: weights, then each of rows::state_names.
  std::size_t width() const { return width_; }

  /// Writes the weights of these rows, consecutively. Rows that do not exist yet have their initial weights.
  void read(std::span<const std::int64_t> ids, float* weights) const;

  /// Begins a step of the table, which may have several updates.
  void count_step() { ++steps_; }
  /// Updates these rows by their gradients, dim() numbers for each.
  void update(std::span<const std::int64_t> ids, const float* gradients, const rows::RowUpdate& update);

  /// From now on, keeps the values of rows before the updates since the last call, for one rollback: it restores the
  /// rows and their states as if these updates had not been made. Memory: the rows of one step.
  void remember_from_here();
  void take_back();
  std::int64_t steps() const { return steps_; }

  /// The ids of the existing rows, in the order of creation, and these rows in the same order, with their states, in
  /// blocks of rows_of_block() rows of width() numbers; the last block has the rest. The memory is valid as long as no
  /// row is created.
  std::span<const std::int64_t> ids() const { return ids_; }
  std::size_t rows_of_block() const { return rows_of_block_; }
  std::size_t blocks() const { return blocks_.size(); }
  std::span<float> block(std::size_t index);
  /// Creates a row with these weights, and with the initial optimizer state.
  void set_weights(std::int64_t id, std::span<const float> weights);
  /// Creates a row from the values of a row of a block.
  void put(std::int64_t id, std::span<const float> row);
  void set_steps(std::int64_t steps) { steps_ = steps; }

  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  std::int64_t bytes() const;

 private:
  std::size_t place_of(std::int64_t id) const;
  std::size_t find(std::int64_t id) const;
  float* row_of(std::int64_t slot) const;
  std::int64_t made(std::int64_t id);
  void grow();

  /// The rows that were updated since remember_from_here(), by slot, and their values before it.
  struct Before {
    std::int64_t steps = 0;
    std::vector<std::int64_t> slots;
    std::vector<float> numbers;
  };

  TableSpec table_;
  rows::RuleSettings rule_;
  std::size_t dim_;
  std::size_t width_;
  std::size_t rows_of_block_;
  std::int64_t steps_ = 0;
  std::vector<std::int64_t> ids_;                 ///< by slot
  std::vector<std::int64_t> places_;              ///< open addressing by id: slots; -1: free
  std::vector<std::unique_ptr<float[]>> blocks_;  ///< by slot, rows_of_block_ rows each, which never move
  std::optional<Before> before_;
};

/// The rows of a server's part of all tables and, with replicas, a copy of those of the server before it.
struct HeldRows {
  std::vector<std::vector<Shard>> parts;  ///< of its own part and of the copy, by table
  std::int64_t step = 0;                  ///< completed steps
  bool remembers = false;                 ///< the last step can be undone
};

/// The part that a server owns (0) or has as a copy (1).
int part_of(int server, bool copy, int servers);

/// Restores the rows of the previous step. Only with `remembers`.
void take_back_step(HeldRows& rows);

/// A server's report of its rows in memory, from which all servers plan the recovery after a loss.
struct ServerMemory {
  bool has_rows = false;  ///< false: a new process
  std::int64_t step = 0;
  bool remembers = false;
  bool operator==(const ServerMemory&) const = default;
};

/// Conversion to a text without spaces, and back. Error(data) for any other text.
std::string print_memory(const ServerMemory& memory);
ServerMemory parse_memory(const std::string& text);

/// The plan by which all servers get the rows after a step.
struct RowsPlan {
  std::string obstacle;            ///< why recovery is impossible, for people; empty: it is possible
  std::vector<bool> takes_back{};  ///< by server: it is one step ahead
  std::vector<bool> takes_rows{};  ///< by server: it is new, and gets its rows from its two neighbours
};

/// A pure function of the reports of all servers. With 2 replicas, the rows of a lost server are on the next server,
/// and the rows of which it had a copy are on the previous server.
RowsPlan plan_rows(const std::vector<ServerMemory>& servers, std::int64_t step, int replicas);

}  // namespace lockstep::parameter_servers
