// The partition of rows over parameter servers: a pure function, equal on workers and servers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::parameter_servers {

enum class Partition {
  hash,   ///< by a hash of table and id: even, also when few ids make up most of a batch
  range,  ///< equal ranges of ids; the first ranges may be one row longer
};

/// "hash", "range"; Error(config) for another name.
Partition parse_partition(std::string_view name);

/// The description of a table for its servers: an embedding table, or another parameter, cut into rows.
struct TableSpec {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::uint64_t seed = 0;  ///< with `deviation`: of the first values (rows/row_rule.h)
  double deviation = 0;
  std::uint64_t key = 0;   ///< key_of(name)
  bool is_slices = false;  ///< of another parameter: its rows have their first values from the workers
};

/// The number that identifies a table in the hash of its rows.
std::uint64_t key_of(std::string_view table);

/// From 0 to servers - 1, for an id of the table. Slices are assigned to servers in turn.
int server_of(Partition partition, const TableSpec& table, std::int64_t id, int servers);

}  // namespace lockstep::parameter_servers
