// The option --rdzv_conf of `lockstep run`: KEY=VALUE,KEY=VALUE.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace lockstep::cli {

struct RdzvConf {
  std::optional<bool> is_host;                                        ///< this node hosts the store
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);  ///< until the minimum number of nodes has joined
  std::chrono::milliseconds last_call_timeout = std::chrono::seconds(30);  ///< after that, until more nodes have joined
  std::chrono::milliseconds replace_timeout = std::chrono::minutes(1);  ///< until another node has a lost node's ranks
  std::chrono::milliseconds close_timeout = std::chrono::seconds(30);   ///< torchrun's; without effect here
  std::optional<std::chrono::milliseconds> read_timeout;  ///< of a request to the store; unset: the backend's default
  std::chrono::milliseconds keep_alive_interval = std::chrono::seconds(1);
  int keep_alive_max_attempt = 5;                 ///< intervals without a heartbeat, after which a node is lost
  bool allow_insecure = false;                    ///< other hosts may reach the launchers' service without a secret
  std::map<std::string, std::string> of_backend;  ///< settings of one backend only
};

/// Error(invalid_argument) for a text that is not KEY=VALUE, an unknown key, and an invalid value.
RdzvConf parse_rdzv_conf(const std::string& text);

}  // namespace lockstep::cli
