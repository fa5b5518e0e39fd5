// One agent's part in its job: its heartbeat, its view of where the job stands, and its turn as the coordinator.
#pragma once

#include <lockstep/cluster/elastic/coordinator.h>

#include <optional>
#include <string>

namespace lockstep::cluster::elastic {

struct Pace {
  std::chrono::milliseconds look = std::chrono::milliseconds(100);  ///< from one look at the job to the next
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);    ///< from one sign of life to the next
};

/// Does one step each time `tick` is called; has no thread and no clock of its own. Every function throws what the
/// store throws.
///
/// The first agent is the coordinator. Each of the others reads the coordinator's heartbeat as often as it sends its
/// own, and takes over when that stops: all of them may try, and the store lets one succeed.
class Membership {
 public:
  using Time = RollCall::Time;

  /// `store_has_holder`: one of the agents holds it, and wants to know when nobody needs it any more.
  Membership(KeyValueStorePtr store, const std::string& job, NodeDescription node, const Policy& policy, Pace pace,
             bool store_has_holder);

  /// Takes a ticket and shows up; once, before everything else. Error(invalid_argument) when the job has ended before.
  void join(Time now);

  Ticket ticket() const { return ticket_; }
  const Keys& keys() const { return keys_; }

  /// For the next heartbeat, which then does not wait; `beat` and `heard` are filled in here.
  void say(const NodeReport& report);

  /// Heartbeat, look, and the coordinator's work if that is this agent's. Call it every `interval()`.
  void tick(Time now);

  /// What a tick took. Where that was long the store did not answer, and nobody is lost for not having been heard.
  void excuse(Time begin, Time end);

  /// Longer than asked for where many agents look at one store, but never longer than from heartbeat to heartbeat.
  std::chrono::milliseconds interval() const;

  /// As of the last tick. Until somebody has begun the job it is gathering, without a coordinator.
  const JobState& state() const { return state_; }

 private:
  void read_state();
  void send_beat(Time now);
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
  Ticket watched_ = 0;  ///< a coordinator, and what is known of it
  std::string watched_beat_;
  Time watched_changed_{};
  Time watched_read_{};
};

}  // namespace lockstep::cluster::elastic
