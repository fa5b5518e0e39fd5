// The coordinator of a job: one of its agents, which watches the heartbeats of all and carries out what is decided.
#pragma once

#include <lockstep/cluster/elastic/decide.h>
#include <lockstep/cluster/elastic/key_value_store.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/report.h>

#include <map>
#include <optional>

namespace lockstep::cluster::elastic {

/// One agent's view of the others. Only its own clock counts: an agent is alive as long as its heartbeat changes, so
/// the clocks of the hosts may differ.
class AgentLiveness {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `heartbeat_limit`: an agent without a new heartbeat for so long is lost. `coordinator`: the agent that uses this
  /// object.
  AgentLiveness(std::chrono::milliseconds heartbeat_limit, Ticket coordinator)
      : heartbeat_limit_(heartbeat_limit), coordinator_(coordinator) {}

  /// Tickets up to this one have been given out.
  void expect(Ticket last, Time now);

  /// The agents whose description is not known yet, and those whose heartbeat is to be read.
  std::vector<Ticket> undescribed() const;
  std::vector<Ticket> followed() const;

  /// The store did not answer from `begin` to `end`: agents that were alive at `begin` get the full `heartbeat_limit`
  /// again.
  void excuse(Time begin, Time end);

  void describe(Ticket ticket, NodeDescription description);
  void hear(Ticket ticket, const std::string& heartbeat, Time now);

  /// All that are described, in the order of their tickets.
  std::vector<NodeView> views(Time now) const;

  /// Agents that were lost or have left are not read any more, except `members`.
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

/// Takes one of the `most` replacements that a job has for ranks and nodes, of which `restarts` were used by restarts
/// of all ranks; false when none is left. All nodes take from one number.
bool take_replacement(KeyValueStore& store, const Keys& keys, int restarts, int most);

/// Made when its agent has become the coordinator. A round of n nodes costs O(n) requests, and so does each reading of
/// the n nodes' reports. It publishes by compare and set: after another agent has taken over, its writes do nothing.
class Coordinator {
 public:
  using Time = AgentLiveness::Time;

  Coordinator(KeyValueStore& store, const Keys& keys, const Policy& policy, Ticket self);

  /// `state` is what the store held just now, as `text`. Throws what the store does.
  void tick(const JobState& state, const std::string& text, Time now);

  /// See AgentLiveness.
  void excuse(Time begin, Time end) { liveness_.excuse(begin, end); }

 private:
  void look(Time now);
  void learn_members(const JobState& state);
  Policy policy_now(const JobState& state, std::span<const NodeView> nodes);
  Waited waited(const JobState& state, bool enough, Time now);
  /// Finds which members' ranks the job service knows, and which of them it has lost.
  void look_at_lost_ranks(const JobState& state, std::vector<NodeView>& nodes);
  /// Publishes the members of the round that `next` is, and the place of each; returns the number of their ranks.
  int publish_members(const JobState& next, std::span<const NodeView> nodes);
  JobState replace(const JobState& state, const Decision& decision, std::span<const NodeView> nodes);
  /// A restart that would only repeat what has happened twice becomes the end of the job.
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
  bool repeated_ = false;  ///< the job ends because it would
  int replaced_ = 0;       ///< ranks that were replaced in place
  int members_of_ = 0;     ///< the round
  std::vector<Ticket> members_;
  std::optional<Time> gathering_since_;
  std::optional<Time> enough_since_;
  std::optional<Time> lost_since_;
};

}  // namespace lockstep::cluster::elastic
