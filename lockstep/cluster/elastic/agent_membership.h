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

/// Keys::service_log.
struct ServiceLog {
  int round = 0;
  std::string text;
};

/// The membership of one agent in its job: its heartbeat, its view of the job's state, and its work as the coordinator.
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

  /// Publishes what this node's job service has said in a round.
  void publish_service_log(int round, const std::string& log) { store_->set(keys_.service_log(round), log); }

  /// Sends the heartbeat, reads the state, and coordinates where this is the coordinator. Call it every `interval()`.
  void tick(Time now);

  /// Excludes the time of a tick: if it was long, the store did not answer, and no agent counts as lost for it.
  void excuse(Time begin, Time end);

  /// The time from tick to tick: longer than Pace::look where many agents read one store, at most Pace::heartbeat.
  std::chrono::milliseconds interval() const;

  /// The state as of the last tick. Until an agent has begun the job, it is gathering and has no coordinator.
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

  std::optional<std::string> text_;  ///< of state_
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

/// Ticks a membership, from the construction (which joins) on. An error on the thread is kept for `state`. The
/// functions are only for the thread that made the object.
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

  /// Publishes at once what this node's job service has said in a round; where it is on another node, what that has
  /// said.
  void publish_service_log(int round, const std::string& log);
  std::string service_log(int round);

  /// Ends the thread; nothing is sent any more.
  void stop();

  /// Waits until the last report is sent, or the thread has ended; no longer than `limit`.
  void wait_told(std::chrono::milliseconds limit);

  /// Readable when `state` has something new.
  int changed_fd() const { return changed_.fd(); }

  /// The state as of the last tick; throws the error that ended the thread.
  JobState state();

  /// Readable once this round is over for this node, or the thread has ended; for one round at a time.
  int over_fd(int round);

 private:
  void run();
  void publish_locked();

  AgentMembership membership_;
  const Ticket ticket_;
  const Keys keys_;
  Flag changed_;
  Flag over_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
  std::optional<NodeReport> to_say_;
  std::optional<ServiceLog> to_publish_;
  ServiceLog service_log_;
  bool told_ = true;
  int round_ = 0;  ///< that over_ is about
  JobState state_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace lockstep::cluster::elastic
