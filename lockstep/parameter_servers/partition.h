// Which parameter server has a row: a pure function, which workers and servers compute alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::parameter_servers {

enum class Partition {
  hash,   ///< by a hash of table and id: even, also where few ids are most of a batch
  range,  ///< equal ranges of ids, the first ones a row longer
};

/// "hash", "range"; Error(config) for another name.
Partition parse_partition(std::string_view name);

/// A table as its servers need to know it: an embedding table, or another parameter, cut into rows.
struct TableSpec {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::uint64_t seed = 0;  ///< with `deviation`: of the first values (rows/initial_row.h)
  double deviation = 0;
  std::uint64_t key = 0;   ///< key_of(name)
  bool is_slices = false;  ///< of another parameter: its rows have their first values from the workers
};

/// The number that stands for a table in the hash of its rows.
std::uint64_t key_of(std::string_view table);

/// From 0 to servers - 1, for an id of the table. Slices go to one server after the other.
int server_of(Partition partition, const TableSpec& table, std::int64_t id, int servers);

}  // namespace lockstep::parameter_servers
