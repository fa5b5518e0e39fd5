// The coordinator of a job, one of its agents: reads the reports of all agents, decides, and publishes the job's state.
#pragma once

#include <lockstep/cluster/elastic/agent_liveness.h>
#include <lockstep/cluster/elastic/key_value_store.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/report.h>

#include <optional>

namespace lockstep::cluster::elastic {

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
  Policy policy_now(const JobState& state);
  Waited waited(const JobState& state, bool enough, Time now);
  JobState form(const JobState& state, const Decision& decision, std::span<const NodeView> nodes);
  JobState close(const JobState& state, const Decision& decision);

  /// The ends of the last round's ranks, as far as their nodes have reported them.
  std::vector<NodeEnds> ends_of(const JobState& state);

  /// Publishes the report of these ends.
  Outcome report(const JobState& state, std::span<const NodeEnds> nodes, const std::string& after);

  KeyValueStore& store_;
  const Keys keys_;
  const Policy policy_;
  const Ticket self_;
  AgentLiveness liveness_;
  int replaced_ = 0;    ///< ranks that were replaced in place
  int members_of_ = 0;  ///< the round
  std::vector<Ticket> members_;
  std::optional<Time> gathering_since_;
  std::optional<Time> enough_since_;
};

}  // namespace lockstep::cluster::elastic
