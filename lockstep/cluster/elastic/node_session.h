// A launcher's side of its membership in a job, as a pure state machine: messages of the service and wishes of the
// launcher come in, messages go out. It has no connection, no clock and no thread; node_link.h has them.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/node_messages.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::cluster::elastic {

/// The facts about this launcher.
struct NodeFacts {
  std::string job;  ///< --rdzv_id
  NodeDescription node;
  Policy policy;
  std::string life;    ///< random
  std::string nonce;   ///< random: the service proves with it that it has the secret
  std::string secret;  ///< of the service to which it connects; empty: none
};

/// Why there will be no connection any more.
struct SessionEnd {
  ErrorKind kind = ErrorKind::environment;
  std::string reason;
  bool again = false;  ///< this launcher may join as a new node
};

/// The whole state of a session. A plain value. What the service has to know is sent again after each welcome.
struct NodeSession {
  NodeFacts facts;
  bool connected = false;  ///< since the welcome
  Ticket ticket = 0;       ///< 0: never welcomed
  std::string service;
  std::optional<JobView> view;  ///< the newest
  NodeReport report;
  std::optional<RanksEnded> ended;  ///< the newest
  std::optional<RanksMeet> meet;    ///< the newest
  std::optional<RanksLost> lost;    ///< the newest
  std::int64_t wishes = 0;          ///< the number of the last wish
  ReplacementAnswer answer;         ///< the newest
  bool said_goodbye = false;        ///< the service has received that this launcher leaves
  std::optional<SessionEnd> over;
};

struct NodeDisconnected {};
/// It is time for a heartbeat.
struct NodeBeat {};
/// A rank is lost: a replacement is wanted.
struct NodeWish {};

using NodeSessionInput =
    std::variant<FromNodeService, NodeDisconnected, NodeBeat, NodeReport, RanksEnded, RanksMeet, RanksLost, NodeWish>;

/// The messages to send, in their order. Error(data) for a message that is not allowed now, and for a service without
/// the secret; the connection is to be closed then.
std::vector<FromNode> step(NodeSession& session, const NodeSessionInput& input);

/// Whether the answer to the last wish has arrived.
bool is_answered(const NodeSession& session);

}  // namespace lockstep::cluster::elastic
