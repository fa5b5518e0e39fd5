// Rank tables (RANK_TABLE_FILE): JSON files that say which device of which server each rank has. Internal to world/ and
// `lockstep rank-table`. Pure functions, except those that say which file they read.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/world/world.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One rank's entry.
struct RankTableDevice {
  int rank = 0;
  int device = 0;         ///< physical index on its server, 0..7
  std::string server;     ///< server_id
  std::string address;    ///< server_ip where there is one, else server_id
  std::string device_ip;  ///< of the device's network interface; may be empty
  std::string path{};     ///< "server_list[0].device[3]"
  FilePosition position{};
};

struct RankTable {
  std::string file;                      ///< as messages name it
  std::vector<RankTableDevice> devices;  ///< by rank

  /// In the order of their first ranks.
  std::vector<std::string> servers() const;
  /// Those of one server, by rank.
  std::vector<RankTableDevice> of_server(std::string_view server) const;
};

/// Reads a table of either generation: "server_list" (version 1.0), or "group_list" with one device an instance.
/// Numbers may be JSON strings or numbers. Checks that counts agree with lists, that ranks are 0..N-1, that no device
/// stands twice, that status is "completed", and the device groups (check_device_groups). Error(config) with file and
/// line, the rule and the mend.
RankTable parse_rank_table(std::string_view text, const std::string& file);

/// The same for a file on disk; Error(environment) when it cannot be read.
RankTable load_rank_table(const std::string& file);

/// The rules for groups of devices: one server takes part with 1, 2, 4 or 8; 2 and 4 lie in one of its two networks
/// ({0,1,2,3}, {4,5,6,7}); several servers take part with all 8 each. Error(config) at the entry that breaks one.
void check_device_groups(const RankTable& table);

namespace detail {

/// What RANK_TABLE_FILE (or MINDSPORE_HCCL_CONFIG_PATH) names; nullopt when neither is set.
std::optional<std::string> rank_table_file(const Environment& environment);

/// The world that RANK_ID, RANK_SIZE, DEVICE_ID and DEVICE_NUM have in a table, which a single rank does without.
/// nullopt when none of RANK_ID, RANK_SIZE and `table` is there. Error(environment) for variables that are half set or
/// contradict the table.
std::optional<World> world_of_rank_table(const Environment& environment, const std::optional<RankTable>& table);

}  // namespace detail
}  // namespace lockstep
