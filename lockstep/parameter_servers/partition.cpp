// The partition of rows by hash (FNV-1a of the table, mixed with the id) or by even ranges of ids.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/partition.h>
#include <lockstep/rows/row_rule.h>

namespace lockstep::parameter_servers {

Partition parse_partition(std::string_view name) {
  if (name == "hash") return Partition::hash;
  if (name == "range") return Partition::range;
  fail(ErrorKind::config, "parallel.server.partition", "is {}; it must be hash or range", name);
}

// FNV-1a.
std::uint64_t key_of(std::string_view table) {
  std::uint64_t key = 0xcbf29ce484222325;
  for (const char c : table) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return key;
}

int server_of(Partition partition, const TableSpec& table, std::int64_t id, int servers) {
  const auto all = static_cast<std::uint64_t>(servers);
  if (table.is_slices) return static_cast<int>((table.key % all + static_cast<std::uint64_t>(id)) % all);
  if (partition == Partition::hash) {
    const auto hash = rows::mixed(table.key + static_cast<std::uint64_t>(id));
    return static_cast<int>(hash % all);
  }
  const auto share = table.rows / servers;
  const auto longer = table.rows % servers;  // number of ranges with share + 1 rows
  const auto of_longer = longer * (share + 1);
  return static_cast<int>(id < of_longer ? id / (share + 1) : longer + (id - of_longer) / share);
}

}  // namespace lockstep::parameter_servers
