// The membership of one agent in its job: its heartbeat, its view of the job's state, and its work as the coordinator.
#pragma once

#include <lockstep/cluster/elastic/coordinator.h>

#include <optional>
#include <string>

namespace lockstep::cluster::elastic {

struct Pace {
  std::chrono::milliseconds look = std::chrono::milliseconds(100);  ///< from one reading of the job's state to the next
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);    ///< from one heartbeat to the next
};

/// Does one step each time `tick` is called; has no thread and no clock of its own. Every function throws what the
/// store throws.
///
/// The first agent is the coordinator. Each of the others reads the coordinator's heartbeat as often as it sends its
/// own, and takes over when that stops: all of them may try, and the store lets one succeed.
class AgentMembership {
 public:
  using Time = AgentLiveness::Time;

  /// `store_has_holder`: one of the agents hosts the store, and has to know when no agent needs it any more.
  AgentMembership(KeyValueStorePtr store, const std::string& job, NodeDescription node, const Policy& policy, Pace pace,
                  bool store_has_holder);

  /// Takes a ticket and publishes the node; once, before all else. Error(invalid_argument) when the job has ended.
  void join(Time now);

  Ticket ticket() const { return ticket_; }
  const Keys& keys() const { return keys_; }

  /// Sets the report of the next heartbeat, which the next tick then sends; `heartbeat` and `heard` are filled in here.
  void say(const NodeReport& report);

  /// Sends the heartbeat, reads the state, and coordinates where this is the coordinator. Call it every `interval()`.
  void tick(Time now);

  /// Excludes the time of a tick: if it was long, the store did not answer, and no agent counts as lost for it.
  void excuse(Time begin, Time end);

  /// The time from tick to tick: longer than Pace::look where many agents read one store, at most Pace::heartbeat.
  std::chrono::milliseconds interval() const;

  /// The state as of the last tick. Until an agent has begun the job, it is gathering and has no coordinator.
  const JobState& state() const { return state_; }

 private:
  void read_state();
  void send_heartbeat(Time now);
  void begin_job(Time now);
  void watch_coordinator(Time now);
  void take_over(JobState next, const std::optional<std::string>& expected);

  KeyValueStorePtr store_;
  const Keys keys_;
  const NodeDescription node_;
  const Policy policy_;
  const Pace pace_;
  const bool store_has_holder_;
  Ticket ticket_ = 0;

  NodeReport report_;
  bool changed_ = true;
  std::optional<Time> sent_;

  std::optional<std::string> text_;  ///< of state_
  JobState state_;
  std::optional<Coordinator> coordinator_;

  Time joined_{};
  Ticket watched_ = 0;  ///< the coordinator that this agent watches
  std::string watched_heartbeat_;
  Time watched_changed_{};
  Time watched_read_{};
};

}  // namespace lockstep::cluster::elastic
