// The state of a job: one value that all agents follow and only the coordinator changes. Values and their JSON.
#pragma once

#include <lockstep/cluster/elastic/node.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster::elastic {

enum class Phase {
  gathering,  ///< no ranks are to run; the next round is being formed
  running,    ///< round `round` runs
  closed,     ///< the job has ended, for good
};

struct JobState {
  Phase phase = Phase::gathering;
  int round = 0;                    ///< the last one that was formed; 0: none yet
  int restarts = 0;                 ///< used up, by the whole job
  int nodes = 0;                    ///< of that round
  int ranks = 0;                    ///< of that round
  bool failed = false;              ///< closed: not all ranks ended well
  int exit_code = 0;                ///< closed: that of all agents
  std::optional<int> first_failed;  ///< closed: the rank that failed first
  Ticket coordinator = 0;           ///< the agent that decides
  Ticket formed_by = 0;             ///< the coordinator that formed the round
  std::int64_t formed_at = 0;       ///< by its wall clock, in milliseconds; tells only how other clocks differ
  std::string why;                  ///< what ended the round, or the job; for people
};

/// A node's place in a round.
struct NodePlace {
  int node = 0;        ///< its number
  int first_rank = 0;  ///< of its ranks
};

std::string to_text(const JobState& state);
std::string to_text(const NodePlace& node_place);
std::string to_text(const std::vector<Ticket>& members);

/// Error(data) when the text is not the JSON of such a value.
JobState parse_state(std::string_view text);
NodePlace parse_node_place(std::string_view text);
std::vector<Ticket> parse_members(std::string_view text);

/// The keys of these values in the store. Keys of a round contain the ticket of the coordinator that formed it: a
/// coordinator that was wrongly taken for lost may still write, but no agent reads its keys.
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
  std::string meeting(const JobState& state) const { return of_round(state) + "meeting"; }
  /// How many ranks were replaced in place, a number.
  std::string replaced() const { return prefix_ + "replaced"; }
  /// The ends of a node's ranks.
  std::string ends(int round, Ticket ticket) const {
    return prefix_ + "ends/" + std::to_string(round) + "/" + std::to_string(ticket);
  }
  /// The report of the failure in a round.
  std::string report(int round) const { return prefix_ + "report/" + std::to_string(round); }

 private:
  std::string of_round(const JobState& state) const {
    return prefix_ + "round/" + std::to_string(state.round) + "." + std::to_string(state.formed_by) + "/";
  }

  std::string prefix_;
};

}  // namespace lockstep::cluster::elastic
