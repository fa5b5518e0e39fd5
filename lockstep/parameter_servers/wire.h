// What workers and parameter servers agree on: the partition of rows over servers, a pure function; and the requests of
// workers, as numbers: a header, and for pushes the numbers of rows.
//
//   pull    header, ids [n]                                        answer: rows [n, dim]
//   push    header, counts [2 tables], ids [all n], rows by table  no answer
//   confirm header                                                 answer: the completed steps, once all gradients of
//                                                                  the worker's last one are in
//   save    header                                                 no answer: workers and servers save together
//   finish  header                                                 no answer
//
// Rows are sent in pieces (messages.h).
// All numbers of a header are checked before memory is allocated for the data after it. No libtorch here.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  std::uint64_t seed = 0;  ///< with `deviation`: of the first values (rows/initial_row.h)
  double deviation = 0;
  std::uint64_t key = 0;   ///< key_of(name)
  bool is_slices = false;  ///< of another parameter: its rows have their first values from the workers
};

/// The number that identifies a table in the hash of its rows.
std::uint64_t key_of(std::string_view table);

/// From 0 to servers - 1, for an id of the table. Slices are assigned to servers in turn.
int server_of(Partition partition, const TableSpec& table, std::int64_t id, int servers);

enum class Request : std::int64_t { pull = 1, push = 2, save = 3, finish = 4, confirm = 5 };

inline constexpr std::size_t kHeaderWords = 8;
inline constexpr std::int64_t kMostIds = std::int64_t{1} << 26;      ///< of one request
inline constexpr std::int64_t kMostNumbers = std::int64_t{1} << 30;  ///< the same, in float32
using HeaderWords = std::array<std::int64_t, kHeaderWords>;

struct Header {
  Request request = Request::pull;
  std::int64_t step = 0;   ///< completed steps: a pull requests the rows after them, a push is for the next step
  std::int64_t table = 0;  ///< pull: index of the table
  std::int64_t ids = 0;    ///< number of ids that follow; finish: the signal that ended the run early, or 0
  double lr = 0;           ///< push: the scheduled learning rate
  double scale = 1;        ///< push: of the gradients, after their mean over workers
  bool copy = false;       ///< push: for the server's copy of the rows of the server before it
  bool operator==(const Header&) const = default;
};

HeaderWords encode(const Header& header);

/// Error(data) for words that encode() does not write for these tables, or beyond the limits.
Header decode(const HeaderWords& words, std::span<const TableSpec> tables);

/// The content of a push for one table.
struct PushedTable {
  bool used = false;  ///< some backward pass of the worker had a gradient for it
  std::int64_t rows = 0;
  bool operator==(const PushedTable&) const = default;
};
std::vector<std::int64_t> encode(std::span<const PushedTable> pushed);
/// Error(data) unless the counts are of these tables and make up `header`.
std::vector<PushedTable> decode_counts(std::span<const std::int64_t> words, const Header& header,
                                       std::span<const TableSpec> tables);

/// Numbers of all rows of a push.
std::int64_t numbers_of(std::span<const PushedTable> pushed, std::span<const TableSpec> tables);

/// Error(data) unless the ids ascend strictly, inside the table.
void require_ids(std::span<const std::int64_t> ids, const TableSpec& table);

}  // namespace lockstep::parameter_servers
