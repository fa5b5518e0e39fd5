// The partition of rows by hash (FNV-1a of the table, mixed with the id) or by even ranges of ids.
// Requests as 64-bit words after a magic number with the version, checked against the tables when decoded.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/wire.h>
#include <lockstep/rows/row_rule.h>

#include <bit>
#include <cmath>

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

namespace {

constexpr std::int64_t kMagic = 0x31303056524553;  // "SERV001", the version included

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::data, "parameter server", "a request {}", fmt::format(format, std::forward<Args>(args)...));
}

double number_in(std::int64_t word, std::string_view what) {
  const auto number = std::bit_cast<double>(word);
  if (!std::isfinite(number)) refuse("has the {} {}", what, number);
  return number;
}

}  // namespace

HeaderWords encode(const Header& header) {
  return {kMagic,
          static_cast<std::int64_t>(header.request),
          header.step,
          header.table,
          header.ids,
          std::bit_cast<std::int64_t>(header.lr),
          std::bit_cast<std::int64_t>(header.scale),
          header.copy ? 1 : 0};
}

Header decode(const HeaderWords& words, std::span<const TableSpec> tables) {
  if (words[0] != kMagic) refuse("is of another program or version");
  if (words[1] < static_cast<std::int64_t>(Request::pull) || words[1] > static_cast<std::int64_t>(Request::confirm)) {
    refuse("is of the unknown kind {}", words[1]);
  }
  Header header{.request = static_cast<Request>(words[1]),
                .step = words[2],
                .table = words[3],
                .ids = words[4],
                .lr = number_in(words[5], "learning rate"),
                .scale = number_in(words[6], "scale"),
                .copy = words[7] == 1};
  if (header.step < 0) refuse("is of step {}", header.step);
  if (header.ids < 0 || header.ids > kMostIds) refuse("has {} ids; it may have {}", header.ids, kMostIds);
  if (words[7] != 0 && (words[7] != 1 || header.request != Request::push)) refuse("ends in {}", words[7]);
  if (header.table < 0 || header.table >= static_cast<std::int64_t>(tables.size())) {
    refuse("is of table {}, and there are {}", header.table, tables.size());
  }
  if (header.request != Request::pull) return header;
  const auto& table = tables[static_cast<std::size_t>(header.table)];
  if (header.ids == 0 || header.ids > kMostNumbers / table.dim) {
    refuse("is for {} rows of {} with {} numbers each; it may be for 1 to {}", header.ids, table.name, table.dim,
           kMostNumbers / table.dim);
  }
  return header;
}

std::vector<std::int64_t> encode(std::span<const PushedTable> pushed) {
  std::vector<std::int64_t> words;
  for (const auto& each : pushed) {
    words.push_back(each.used ? 1 : 0);
    words.push_back(each.rows);
  }
  return words;
}

std::vector<PushedTable> decode_counts(std::span<const std::int64_t> words, const Header& header,
                                       std::span<const TableSpec> tables) {
  if (words.size() != 2 * tables.size()) refuse("has counts of {} tables", words.size() / 2);
  std::vector<PushedTable> pushed;
  std::int64_t left = header.ids, numbers = 0;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto used = words[2 * i], rows = words[2 * i + 1];
    if (used != 0 && used != 1) refuse("has {} for the use of {}", used, tables[i].name);
    if (rows < 0 || rows > left || (rows > 0 && used == 0)) refuse("has {} rows of {}", rows, tables[i].name);
    left -= rows;
    if (rows > (kMostNumbers - numbers) / tables[i].dim) refuse("has more than {} numbers", kMostNumbers);
    numbers += rows * tables[i].dim;
    pushed.push_back({used == 1, rows});
  }
  if (left != 0) refuse("has {} ids of no table", left);
  return pushed;
}

std::int64_t numbers_of(std::span<const PushedTable> pushed, std::span<const TableSpec> tables) {
  std::int64_t numbers = 0;
  for (std::size_t i = 0; i < tables.size(); ++i) numbers += pushed[i].rows * tables[i].dim;
  return numbers;
}

void require_ids(std::span<const std::int64_t> ids, const TableSpec& table) {
  std::int64_t before = -1;
  for (const auto id : ids) {
    if (id <= before || id >= table.rows) refuse("has the id {} of {} after {}", id, table.name, before);
    before = id;
  }
}

}  // namespace lockstep::parameter_servers
