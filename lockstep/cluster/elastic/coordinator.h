// The coordinator of a job: the agent that watches the heartbeats of all agents and carries out the decisions.
#pragma once

#include <lockstep/cluster/elastic/decide.h>
#include <lockstep/cluster/elastic/key_value_store.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/report.h>

#include <map>
#include <optional>

namespace lockstep::cluster::elastic {

/// One agent's view of the other agents. Uses only its own clock: an agent is alive as long as its heartbeat changes,
/// so the clocks of the hosts may differ.
class AgentLiveness {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `heartbeat_limit`: an agent without a new heartbeat for this long is lost. `coordinator`: the agent that uses this
  /// object.
  AgentLiveness(std::chrono::milliseconds heartbeat_limit, Ticket coordinator)
      : heartbeat_limit_(heartbeat_limit), coordinator_(coordinator) {}

  /// Expects the agents with tickets up to `last`.
  void expect(Ticket last, Time now);

  /// The agents whose description has not been read yet, and those whose heartbeat has to be read.
  std::vector<Ticket> undescribed() const;
  std::vector<Ticket> followed() const;

  /// Excludes the time from `begin` to `end`, in which the store did not answer: agents that were alive at `begin` get
  /// the full `heartbeat_limit` again.
  void excuse(Time begin, Time end);

  void describe(Ticket ticket, NodeDescription description);
  void hear(Ticket ticket, const std::string& heartbeat, Time now);

  /// All agents that have a description, in the order of their tickets.
  std::vector<NodeView> views(Time now) const;

  /// Stops reading agents that were lost or have left, except `members`.
  void forget_gone(std::span<const Ticket> members, Time now);

 private:
  struct Entry {
    std::optional<NodeDescription> description;
    std::string heartbeat;
    NodeReport report;
    Time heard;
  };

  std::chrono::milliseconds heartbeat_limit_;
  Ticket coordinator_;
  Ticket last_ = 0;
  std::map<Ticket, Entry> entries_;
};

/// Takes one of the `most` replacements that a job has for ranks and nodes. Restarts of all ranks have used `restarts`
/// of them. False when none is left. All nodes take from the same counter.
bool take_replacement(KeyValueStore& store, const Keys& keys, int restarts, int most);

/// The work of the coordinator; made when an agent has become it. A round of n nodes costs O(n) requests, and so does
/// each reading of the n nodes' reports. Publishes by compare and set: after another agent has taken over, its writes
/// do nothing.
class Coordinator {
 public:
  using Time = AgentLiveness::Time;

  Coordinator(KeyValueStore& store, const Keys& keys, const Policy& policy, Ticket self);

  /// `state` is the value just read from the store, and `text` its text. Throws the errors of the store.
  void tick(const JobState& state, const std::string& text, Time now);

  /// See AgentLiveness.
  void excuse(Time begin, Time end) { liveness_.excuse(begin, end); }

 private:
  void look(Time now);
  void learn_members(const JobState& state);
  Policy policy_now(const JobState& state, std::span<const NodeView> nodes);
  Waited waited(const JobState& state, bool enough, Time now);
  /// Finds which members' ranks are registered with the job service, and which of them it has lost.
  void look_at_lost_ranks(const JobState& state, std::vector<NodeView>& nodes);
  /// Publishes the members and places of the round that begins with `next`; returns the number of their ranks.
  int publish_members(const JobState& next, std::span<const NodeView> nodes);
  JobState replace(const JobState& state, const Decision& decision, std::span<const NodeView> nodes);
  /// Ends the job instead of a restart that would only repeat a failure that has occurred twice.
  Decision without_repetition(const JobState& state, Decision decision);
  JobState refuse(const JobState& state, const Decision& decision);
  JobState form(const JobState& state, const Decision& decision, std::span<const NodeView> nodes);
  JobState close(const JobState& state, const Decision& decision);

  /// The ends of the last round's ranks, as far as their nodes have reported them.
  std::vector<NodeEnds> ends_of(const JobState& state);

  /// Publishes the report of these ends.
  RunOutcome report(const JobState& state, std::span<const NodeEnds> nodes, const std::string& after);

  KeyValueStore& store_;
  const Keys keys_;
  const Policy policy_;
  const Ticket self_;
  AgentLiveness liveness_;
  bool repeated_ = false;  ///< the job ends because a restart would repeat the failure
  int replaced_ = 0;       ///< ranks that were replaced in place
  int members_of_ = 0;     ///< the round of members_
  std::vector<Ticket> members_;
  std::optional<Time> gathering_since_;
  std::optional<Time> enough_since_;
  std::optional<Time> lost_since_;
};

}  // namespace lockstep::cluster::elastic
