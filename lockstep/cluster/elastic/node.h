// The description and the reports that an agent publishes about its node. Values and their JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cluster::elastic {

/// The number of an agent in the order of arrival, from 1; no two agents of a job have the same.
using Ticket = std::int64_t;

/// The facts that do not change while the agent runs.
struct NodeDescription {
  std::string host;               ///< for people
  int ranks = 1;                  ///< that it starts
  bool holds_store = false;       ///< the store is in this agent's process
  std::optional<int> given_rank;  ///< the number that the user gave the node
};

enum class Stage {
  waiting,  ///< none of its ranks run; it waits for the next round
  running,  ///< its ranks of `round` run
  ended,    ///< its ranks have all ended well
  left,     ///< it has left the job for good
};

/// The content of a heartbeat.
struct NodeReport {
  std::int64_t heartbeat = 0;  ///< counts up
  Stage stage = Stage::waiting;
  int round = 0;        ///< the last round it was in; 0: none
  bool failed = false;  ///< one of its ranks failed in that round
  bool fatal = false;   ///< a restart would not help
  Ticket heard = 0;     ///< the coordinator that it follows
  std::string note{};   ///< why it leaves
};

std::string to_text(const NodeDescription& node);
std::string to_text(const NodeReport& report);

/// Error(data) when the text is not the JSON of such a value.
NodeDescription parse_description(std::string_view text);
NodeReport parse_report(std::string_view text);

}  // namespace lockstep::cluster::elastic
