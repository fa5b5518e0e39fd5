// The membership of an agent in its job, and the heartbeat thread that ticks it while the agent waits for its ranks.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/elastic/coordinator.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace lockstep::cluster::elastic {

struct Pace {
  std::chrono::milliseconds look = std::chrono::milliseconds(100);  ///< from one reading of the job's state to the next
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);    ///< from one heartbeat to the next
};

/// The value of Keys::service_log for one round.
struct ServiceLog {
  int round = 0;
  std::string text;
};

/// The membership of one agent in its job: its heartbeat, its view of the job's state, and its work as the coordinator.
/// Does one step each time `tick` is called; has no thread and no clock of its own. Every function throws the errors of
/// the store.
///
/// The first agent is the coordinator. Each other agent reads the coordinator's heartbeat as often as it sends its own.
/// When that heartbeat stops, all of them may try to take over, and the store lets one succeed.
class AgentMembership {
 public:
  using Time = AgentLiveness::Time;

  /// `store_has_holder`: one of the agents hosts the store, and must be able to find out when no agent needs it any
  /// more.
  AgentMembership(KeyValueStorePtr store, const std::string& job, NodeDescription node, const Policy& policy, Pace pace,
                  bool store_has_holder);

  /// Takes a ticket and publishes the node. Call it once, before all else. Error(invalid_argument) when the job has
  /// ended.
  void join(Time now);

  Ticket ticket() const { return ticket_; }
  const Keys& keys() const { return keys_; }

  /// Sets the report of the next heartbeat, which the next tick then sends; fills in `heartbeat` and `heard`.
  void say(const NodeReport& report);

  /// Publishes the log of this node's job service in a round.
  void publish_service_log(int round, const std::string& log) { store_->set(keys_.service_log(round), log); }

  /// Sends the heartbeat, reads the state, and coordinates if this agent is the coordinator. Call it every
  /// `interval()`.
  void tick(Time now);

  /// Excludes the time of a tick: during a long tick the store did not answer, and no agent counts as lost because of
  /// it.
  void excuse(Time begin, Time end);

  /// The time from tick to tick: longer than Pace::look where many agents read one store, at most Pace::heartbeat.
  std::chrono::milliseconds interval() const;

  /// The state as of the last tick. Until an agent has begun the job, the state is gathering and has no coordinator.
  const JobState& state() const { return state_; }

  /// The log of the job service in the round whose ranks run here, as of the last tick.
  const ServiceLog& service_log() const { return service_log_; }

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

  std::optional<std::string> text_;  ///< the text of state_
  JobState state_;
  ServiceLog service_log_;
  std::optional<Coordinator> coordinator_;

  Time joined_{};
  Ticket watched_ = 0;  ///< the coordinator that this agent watches
  std::string watched_heartbeat_;
  Time watched_changed_{};
  Time watched_read_{};
};

/// An eventfd: readable between `raise` and `lower`.
class Flag {
 public:
  /// Error(io) when the process has no descriptors left.
  Flag();
  void raise() noexcept;
  void lower() noexcept;
  int fd() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

/// Ticks a membership on a thread of its own. The constructor joins the job. An error on the thread is kept for
/// `state`. Only the thread that made the object may call the functions.
class Watcher {
 public:
  explicit Watcher(AgentMembership membership);
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher();

  Ticket ticket() const { return ticket_; }
  const Keys& keys() const { return keys_; }

  /// Sends the report at once.
  void say(const NodeReport& report);

  /// Publishes at once the log of the job service in a round, whether it runs on this node or on another one.
  void publish_service_log(int round, const std::string& log);
  std::string service_log(int round);

  /// Ends the thread; it sends nothing any more.
  void stop();

  /// Waits until the last report is sent, or the thread has ended; at most `limit`.
  void wait_told(std::chrono::milliseconds limit);

  /// Readable when `state` has changed.
  int changed_fd() const { return changed_.fd(); }

  /// The state as of the last tick; throws the error that ended the thread.
  JobState state();

  /// Readable once this round has ended for this node, or the thread has ended; for one round at a time.
  int over_fd(int round);

 private:
  void run();
  void publish_locked();

  AgentMembership membership_;
  const Ticket ticket_;
  const Keys keys_;
  Flag changed_;
  Flag over_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable wake_;
  bool stop_ = false;
  std::optional<NodeReport> to_say_;
  std::optional<ServiceLog> to_publish_;
  ServiceLog service_log_;
  bool told_ = true;
  int round_ = 0;  ///< the round of over_
  JobState state_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace lockstep::cluster::elastic
