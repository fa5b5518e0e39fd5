// The option --rdzv_conf of `lockstep run`: KEY=VALUE,KEY=VALUE.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace lockstep::cli {

struct RdzvConf {
  std::optional<bool> is_host;                                        ///< this node holds the store
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);  ///< for the least number of nodes to be there
  std::chrono::milliseconds last_call_timeout = std::chrono::seconds(30);  ///< then, for more to come
  std::chrono::milliseconds replace_timeout = std::chrono::minutes(1);  ///< for another node to take a lost one's ranks
  std::chrono::milliseconds close_timeout = std::chrono::seconds(30);   ///< for others to take note of the end
  std::optional<std::chrono::milliseconds> read_timeout;  ///< for the store to answer; unset: as the backend has it
  std::chrono::milliseconds keep_alive_interval = std::chrono::seconds(1);
  int keep_alive_max_attempt = 5;                 ///< intervals without a heartbeat, after which a node is lost
  bool allow_insecure = false;                    ///< other hosts may reach the launchers' store without a secret
  std::map<std::string, std::string> of_backend;  ///< settings that only one backend knows
};

/// Error(invalid_argument) for what is not KEY=VALUE, a key that there is not, and a value that is none.
RdzvConf parse_rdzv_conf(const std::string& text);

}  // namespace lockstep::cli
