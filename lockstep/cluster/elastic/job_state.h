// The values of an elastic job: what its nodes report, the state of the job, which only its service changes, and the
// rendezvous of a round's ranks.
#pragma once

#include <lockstep/cluster/rank_start.h>
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
  std::string host;               ///< shown to the user
  int ranks = 1;                  ///< the number of ranks that it starts
  bool runs_service = false;      ///< this agent runs the service, and the job ends when it leaves
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
  Stage stage = Stage::waiting;
  int round = 0;        ///< the last round in which it took part; 0: none
  bool failed = false;  ///< one of its ranks failed in that round
  bool fatal = false;   ///< a restart would not help
  std::string note{};   ///< why it leaves
  bool operator==(const NodeReport&) const = default;
};

enum class Phase {
  gathering,  ///< no ranks are to run; the next round is being formed
  running,    ///< round `round` runs
  closed,     ///< the job has ended, for good
};

/// The state of a job: one value that all agents follow and only the service changes.
struct JobState {
  Phase phase = Phase::gathering;
  int round = 0;                    ///< the number of the last round that was formed; 0: none yet
  int restarts = 0;                 ///< used up, by the whole job
  int nodes = 0;                    ///< the nodes in that round
  int ranks = 0;                    ///< the ranks in that round
  bool failed = false;              ///< closed: not all ranks ended well
  int exit_code = 0;                ///< closed: the exit code of all agents
  std::optional<int> first_failed;  ///< closed: the rank that failed first
  std::vector<Ticket> replaced;     ///< nodes of that round that were lost, and whose places others have taken
  std::vector<Ticket> before;       ///< nodes of the previous round, if that round only grew: all of these and more
  std::vector<Ticket> refused;      ///< nodes with which the program cannot run; they take part in no round
  std::vector<int> refused_ranks;   ///< numbers of ranks with which the program cannot run
  int forgiven = 0;                 ///< the last round whose failure only meant that nodes are refused; 0: none
  std::optional<Death> death;       ///< the death that caused the last restart of all ranks
  std::string awaits;               ///< running: why the round waits for a lost node; shown to the user
  std::string why;                  ///< what ended the round or the job, or which node was replaced; shown to the user
  bool operator==(const JobState&) const = default;
};

/// A node's place in a round.
struct NodePlace {
  int node = 0;        ///< its number
  int first_rank = 0;  ///< the first of its ranks
  bool operator==(const NodePlace&) const = default;
};

/// Whether another node has taken the place of this one in the present round.
bool is_replaced(const JobState& state, Ticket ticket);

/// Whether the program cannot run with this node.
bool is_refused(const JobState& state, Ticket ticket);

/// The rendezvous of a round's ranks: the address of the store that node 0's agent opens.
struct Place {
  std::string host;
  std::uint16_t port = 0;
  OwnStoreAddress own_store{};              ///< the store that ranks of Lockstep use instead
  std::optional<ServiceAddress> service{};  ///< where ranks register, so that lost ones can be replaced
  bool operator==(const Place&) const = default;
};

}  // namespace lockstep::cluster::elastic
