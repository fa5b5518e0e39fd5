// The service that decides on the nodes of elastic jobs, as a pure state machine: a state, an input and the time give
// the next state and outputs. It has no connection, no clock, no store and no random numbers; node_server.h has them.
// So the same code runs in a launcher and in simulated lives (tests/simulation/).
#pragma once

#include <lockstep/cluster/elastic/node_messages.h>
#include <lockstep/membership/service/service.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::cluster::elastic {

using membership::ConnectionId;
using membership::Time;

/// One launcher of a job.
struct NodeMember {
  NodeDescription description;
  std::string life;  ///< identifies the launcher on another connection
  NodeReport report;
  bool current = false;             ///< it has reported since this service began, or took over
  Time heard;                       ///< the time of its last message; after a takeover, of the takeover
  ConnectionId connection = 0;      ///< 0: none
  std::optional<RanksEnded> ended;  ///< the ends of its ranks in the last round in which they did not all end well
  ReplacementAnswer answer;         ///< the last one
  std::optional<JobView> sent;      ///< the last view on this connection
};

/// One elastic job.
struct NodeJob {
  std::string name;     ///< --rdzv_id
  std::string service;  ///< see NodeWelcome
  Policy policy;
  JobState state;
  std::vector<Ticket> members;  ///< the nodes of the last round, in the order of their numbers
  std::map<Ticket, NodeMember> nodes;
  Ticket arrivals = 0;                 ///< the last ticket
  int replaced = 0;                    ///< ranks and nodes that were replaced in place
  bool repeated = false;               ///< the job ends because a restart would repeat the failure
  std::optional<Place> meeting;        ///< of the ranks of the last round
  RankLosses losses;                   ///< of the ranks of the last round
  std::map<int, std::string> reports;  ///< of the failures, by round
  std::optional<Time> gathering_since;
  std::optional<Time> enough_since;                  ///< since when min_nodes nodes have joined
  std::optional<Time> lost_since;                    ///< since when a node is lost whose place another one may take
  std::deque<membership::LoggedDecision> decisions;  ///< the last ten, for the status
};

/// A connection.
struct NodePeer {
  std::string address;
  std::string nonce;  ///< of our greeting
  std::string job;    ///< after its hello
  Ticket ticket = 0;  ///< 0: not a node yet
  bool closing = false;
};

/// The whole state of the service. A plain value.
struct NodeServiceState {
  std::string secret;    ///< launchers must have it; empty: none
  std::string only_job;  ///< the only job that is served; empty: any
  std::map<std::string, NodeJob> jobs;
  std::map<ConnectionId, NodePeer> peers;
  Time stepped;  ///< the last step
};

struct NodeReceived {
  ConnectionId connection = 0;
  FromNode message;
};

using NodeServiceInput = std::variant<membership::Opened, NodeReceived, membership::Closed, membership::Tick>;

// ---- outputs, in the order in which the caller carries them out

struct SendToNode {
  ConnectionId connection = 0;
  FromNodeService message;
};
/// The job is to be saved before the outputs that follow, as they depend on it.
struct SaveJob {
  std::string name;
};

using NodeServiceOutput =
    std::variant<SendToNode, SaveJob, membership::Close, membership::LogLine, membership::Refusal>;

/// Error(data), with the state otherwise as before, for a message that is not allowed now: the caller closes that
/// connection.
std::vector<NodeServiceOutput> step(NodeServiceState& state, const NodeServiceInput& input, Time now,
                                    const membership::NewToken& new_token);

/// Whether this connection is that of a node.
bool is_node(const NodeServiceState& state, ConnectionId connection);

/// The number of launchers that have not left and are not lost.
int count_users(const NodeServiceState& state, Time now);

/// The text from which another service continues the job, and the job in it. Its nodes are expected to connect again.
/// Error(data) for another text.
std::string print_job(const NodeJob& job);
NodeJob read_job(std::string_view text, Time now);

/// Outputs of the service that wait until the state on which they depend is saved. Meanwhile the service goes on: what
/// changes until the end of one save is saved by the next one.
class HeldOutputs {
 public:
  /// Takes the outputs of a step; returns those that can be carried out now.
  std::vector<NodeServiceOutput> take(std::vector<NodeServiceOutput> outputs) {
    std::vector<NodeServiceOutput> ready;
    for (auto& output : outputs) {
      if (std::holds_alternative<SaveJob>(output)) {
        changed_ = true;
      } else if (changed_ || saving_) {
        waiting_.push_back(std::move(output));
      } else {
        ready.push_back(std::move(output));
      }
    }
    return ready;
  }

  /// Whether a save is to begin now, with the state as it is.
  bool begin_save() {
    if (!changed_ || saving_) return false;
    saving_ = true;
    changed_ = false;
    waiting_for_save_ = waiting_.size();
    return true;
  }

  /// The save has succeeded; returns what waited for it. Another one may have to begin.
  std::vector<NodeServiceOutput> end_save() {
    saving_ = false;
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(changed_ ? waiting_for_save_ : waiting_.size());
    std::vector<NodeServiceOutput> ready(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return ready;
  }

 private:
  std::deque<NodeServiceOutput> waiting_;
  std::size_t waiting_for_save_ = 0;  ///< those of them that wait for the save in progress
  bool changed_ = false;              ///< since the begin of the last save
  bool saving_ = false;
};

// The status of the service: the document of GET /v1/status at the endpoint of launchers (docs/surviving.md has its
// schema), and its table.

/// The document. `version`: of Lockstep. `started`: the service.
std::string status_json(const NodeServiceState& service, const std::string& version, Time started, Time now);

/// Whether a document is that of a service of launchers.
bool is_of_launchers(const std::string& json);

/// The same as a readable table. Error(data) when `json` is no such document.
std::string status_table(const std::string& json);

}  // namespace lockstep::cluster::elastic
