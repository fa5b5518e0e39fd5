// The writer of rank tables, with the file names and the layout of hccl_tools.py and merge_hccl.py. Pure functions.
#pragma once

#include <lockstep/world/rank_table.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

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

/// One table of several servers: ranks are numbered anew in the order of `tables`. Error(config) when a server is in
/// two of them, or when the devices may not form a group.
RankTableFile merge_rank_tables(const std::vector<RankTable>& tables);

}  // namespace lockstep
