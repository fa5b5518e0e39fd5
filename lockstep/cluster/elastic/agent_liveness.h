// The liveness of a job's agents, from their heartbeats and when these were read. Pure: the time is passed in.
#pragma once

#include <lockstep/cluster/elastic/decide.h>

#include <map>
#include <optional>

namespace lockstep::cluster::elastic {

/// One agent's view of the others. Only its own clock counts: an agent is alive as long as its heartbeat changes, so
/// the clocks of the hosts may differ.
class AgentLiveness {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `silence`: an agent without a new heartbeat for so long is lost. `coordinator`: the agent that uses this object.
  AgentLiveness(std::chrono::milliseconds silence, Ticket coordinator) : silence_(silence), coordinator_(coordinator) {}

  /// Tickets up to this one have been given out.
  void expect(Ticket last, Time now);

  /// The agents whose description is not known yet, and those whose heartbeat is to be read.
  std::vector<Ticket> undescribed() const;
  std::vector<Ticket> followed() const;

  /// The store did not answer from `begin` to `end`: agents that were alive at `begin` get the full `silence` again.
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

  std::chrono::milliseconds silence_;
  Ticket coordinator_;
  Ticket last_ = 0;
  std::map<Ticket, Entry> entries_;
};

}  // namespace lockstep::cluster::elastic
