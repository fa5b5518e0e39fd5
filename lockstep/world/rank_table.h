// Rank tables (RANK_TABLE_FILE), JSON files that assign each rank a device of a server: their reader and their writer.
// Internal to world/ and `lockstep rank-table`. Pure functions, except those that are documented to read a file.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/world/world.h>

#include <map>
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
  std::string address;    ///< server_ip if present, else server_id
  std::string device_ip;  ///< address of the device's network interface; may be empty
  std::string path{};     ///< "server_list[0].device[3]"
  FilePosition position{};
};

struct RankTable {
  std::string file;                      ///< name of the file in messages
  std::vector<RankTableDevice> devices;  ///< by rank

  /// The server_ids, in the order of their first ranks.
  std::vector<std::string> servers() const;
  /// The devices of one server, by rank.
  std::vector<RankTableDevice> of_server(std::string_view server) const;
};

/// Reads a table of either format: "server_list" (version 1.0), or the older "group_list" with one device per instance.
/// Numbers may be JSON strings or numbers. Checks that counts agree with lists, that ranks are 0..N-1, that no device
/// occurs twice, that status is "completed", and the device groups (check_device_groups). Error(config) with file and
/// line, the rule and the fix.
RankTable parse_rank_table(std::string_view text, const std::string& file);

/// The same for a file on disk; Error(environment) when it cannot be read.
RankTable load_rank_table(const std::string& file);

/// Checks the rules for groups of devices: a single server uses 1, 2, 4 or 8 devices; 2 and 4 devices must be in one of
/// its two networks ({0,1,2,3}, {4,5,6,7}); several servers use all 8 devices each. Error(config) at the entry that
/// breaks a rule.
void check_device_groups(const RankTable& table);

namespace detail {

/// The file named by RANK_TABLE_FILE (or MINDSPORE_HCCL_CONFIG_PATH); nullopt when neither is set.
std::optional<std::string> rank_table_file(const Environment& environment);

/// The world given by RANK_ID, RANK_SIZE, DEVICE_ID and DEVICE_NUM together with a table; a single rank needs no table.
/// nullopt when none of RANK_ID, RANK_SIZE and `table` is given. Error(environment) when the set of variables is
/// incomplete or contradicts the table.
std::optional<World> world_of_rank_table(const Environment& environment, const std::optional<RankTable>& table);

}  // namespace detail

/// The options of `lockstep rank-table`.
struct RankTableRequest {
  std::string device_num = "[0,8)";                 ///< logical devices FIRST..END-1
  std::string visible_devices = "0,1,2,3,4,5,6,7";  ///< the physical device of each logical one
  std::string server_ip;                            ///< becomes server_id
};

/// Physical device -> address of its network interface.
using DeviceAddresses = std::map<int, std::string>;

struct RankTableFile {
  std::string name;  ///< "hccl_4p_4567_127.0.0.1.json"
  std::string text;
};

/// Lines such as "address_0=192.168.100.101" of /etc/hccn.conf; others are skipped.
DeviceAddresses parse_device_addresses(std::string_view text);

/// The table of one server. Error(invalid_argument) for a malformed request or a device without an address,
/// Error(config) for devices that may not form a group.
RankTableFile make_rank_table(const RankTableRequest& request, const DeviceAddresses& addresses);

/// One table of several servers: ranks are numbered again in the order of `tables`. Error(config) when a server is in
/// two of them, or when the devices may not form a group.
RankTableFile merge_rank_tables(const std::vector<RankTable>& tables);

}  // namespace lockstep
