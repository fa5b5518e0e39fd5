// The values in the launchers' store, and their JSON: what nodes report, the state of the job, which only the
// coordinator changes, and the rendezvous of a round's ranks.
#pragma once

#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/report.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster::elastic {

/// The number of an agent in the order of arrival, from 1; no two agents of a job have the same.
using Ticket = std::int64_t;

/// The facts that do not change while the agent runs.
struct NodeDescription {
  std::string host;          ///< shown to the user
  int ranks = 1;             ///< the number of ranks that it starts
  bool holds_store = false;  ///< this agent opened the store; when this agent is lost, another one may hold the store
  std::optional<int> given_rank;  ///< the number that the user gave the node
};

enum class Stage {
  waiting,  ///< none of its ranks run; it waits for the next round
  running,  ///< its ranks of `round` run
  ended,    ///< its ranks have all ended well
  left,     ///< it has left the job permanently
};

/// The content of a heartbeat.
struct NodeReport {
  std::int64_t heartbeat = 0;  ///< increases with each heartbeat
  Stage stage = Stage::waiting;
  int round = 0;        ///< the last round in which it took part; 0: none
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

enum class Phase {
  gathering,  ///< no ranks are to run; the next round is being formed
  running,    ///< round `round` runs
  closed,     ///< the job has ended, for good
};

/// The state of a job: one value that all agents follow and only the coordinator changes.
struct JobState {
  Phase phase = Phase::gathering;
  int round = 0;                    ///< the number of the last round that was formed; 0: none yet
  int restarts = 0;                 ///< used up, by the whole job
  int nodes = 0;                    ///< the nodes in that round
  int ranks = 0;                    ///< the ranks in that round
  bool failed = false;              ///< closed: not all ranks ended well
  int exit_code = 0;                ///< closed: the exit code of all agents
  std::optional<int> first_failed;  ///< closed: the rank that failed first
  Ticket coordinator = 0;           ///< the agent that decides
  Ticket formed_by = 0;             ///< the coordinator that formed the round
  std::int64_t formed_at = 0;       ///< by its wall clock, in milliseconds; used only to measure clock differences
  std::vector<Ticket> replaced;     ///< nodes of that round that were lost, and whose places others have taken
  std::vector<Ticket> before;       ///< nodes of the previous round, if that round only grew: all of these and more
  std::vector<Ticket> refused;      ///< nodes with which the program cannot run; they take part in no round
  std::vector<int> refused_ranks;   ///< numbers of ranks with which the program cannot run
  int forgiven = 0;                 ///< the last round whose failure only meant that nodes are refused; 0: none
  std::optional<Death> death;       ///< the death that caused the last restart of all ranks
  std::string awaits;               ///< running: why the round waits for a lost node; shown to the user
  std::string why;                  ///< what ended the round or the job, or which node was replaced; shown to the user
};

/// A node's place in a round.
struct NodePlace {
  int node = 0;        ///< its number
  int first_rank = 0;  ///< the first of its ranks
};

/// Whether another node has taken the place of this one in the present round.
bool is_replaced(const JobState& state, Ticket ticket);

/// Whether the program cannot run with this node.
bool is_refused(const JobState& state, Ticket ticket);

std::string to_text(const JobState& state);
std::string to_text(const NodePlace& node_place);
std::string to_text(const std::vector<Ticket>& members);

/// Error(data) when the text is not the JSON of such a value.
JobState parse_state(std::string_view text);
NodePlace parse_node_place(std::string_view text);
std::vector<Ticket> parse_members(std::string_view text);
/// The ranks that the job service had lost at the end of its log; nullopt: no ranks were registered with it.
std::optional<std::vector<int>> parse_lost_ranks(std::string_view log);

/// The keys of these values in the store. Keys of a round contain the ticket of the coordinator that formed it, or that
/// replaced a node in it: a coordinator that was wrongly declared lost may still write, but no agent reads its keys.
class Keys {
 public:
  explicit Keys(const std::string& job) : prefix_("lockstep/" + job + "/") {}

  std::string arrivals() const { return prefix_ + "arrivals"; }
  std::string state() const { return prefix_ + "state"; }
  std::string node(Ticket ticket) const { return prefix_ + "node/" + std::to_string(ticket); }
  std::string heartbeat(Ticket ticket) const { return prefix_ + "heartbeat/" + std::to_string(ticket); }
  std::string members(const JobState& state) const { return of_round(state) + "members"; }
  std::string node_place(const JobState& state, Ticket ticket) const {
    return of_round(state) + "place/" + std::to_string(ticket);
  }
  /// The rendezvous of the ranks, written by node 0.
  std::string rendezvous(const JobState& state) const { return of_round(state) + "rendezvous"; }
  /// The key of the number of replaced ranks and nodes.
  std::string replaced() const { return prefix_ + "replaced"; }
  /// The key of the log of node 0's job service in a round, for the other agents: ServiceEvents::log.
  std::string service_log(int round) const { return prefix_ + "service/" + std::to_string(round); }
  /// The ends of a node's ranks.
  std::string ends(int round, Ticket ticket) const {
    return prefix_ + "ends/" + std::to_string(round) + "/" + std::to_string(ticket);
  }
  /// The report of the failure in a round.
  std::string report(int round) const { return prefix_ + "report/" + std::to_string(round); }

 private:
  std::string of_round(const JobState& state) const {
    auto key = prefix_ + "round/" + std::to_string(state.round) + "." + std::to_string(state.formed_by);
    if (!state.replaced.empty()) key.append(".").append(std::to_string(state.replaced.size()));
    return key.append("/");
  }

  std::string prefix_;
};

/// The rendezvous of a round's ranks: the address of the store that node 0's agent opens.
struct Place {
  std::string host;
  std::uint16_t port = 0;
  OwnStoreAddress own_store{};              ///< the store that ranks of Lockstep use instead
  std::optional<ServiceAddress> service{};  ///< where ranks register, so that lost ones can be replaced
};

std::string to_text(const Place& place);

/// Error(data) when the text is not the JSON of such a value.
Place parse_place(std::string_view text);

}  // namespace lockstep::cluster::elastic
