// The scheduler's message handling: it decides by admission.h and membership.h, and sends messages to the affected
// workers.
#pragma once

#include <lockstep/base/refusal_log.h>
#include <lockstep/membership/service/connection.h>
#include <lockstep/membership/service/saved_state.h>
#include <lockstep/membership/service/server.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::membership {

/// Not thread-safe.
class SchedulerService {
 public:
  /// Continues from the saved state, if there is one.
  explicit SchedulerService(const ServerOptions& options, Time now);

  /// A new connection of a worker.
  void greet(const std::shared_ptr<Connection>& connection);
  /// Handles a message from it. Error(data) when that is not a message, or not allowed now: the caller should close the
  /// connection.
  void receive(Connection& connection, const std::string& text, Time now);
  /// The connection has ended.
  void forget(Connection& connection, const std::string& reason, Time now);

  /// Does the work that depends on time. Returns the end of the job, once it has ended and the workers got the message.
  std::optional<Ending> tick(Time now);

  std::string status(Time now) const;

  /// The log of refusals, also for connections that were never passed to this object.
  RefusalLog& refusals() { return refusals_; }

 private:
  void take(Connection& connection, const Register& request, Time now);
  void take(Connection& connection, const StoreAt& store, Time now);
  void take(Connection& connection, const Heartbeat& heartbeat, Time now);
  void take(Connection& connection, const Again& again, Time now);
  void take(Connection& connection, const Leave& leave, Time now);

  Member& member_of(const Connection& connection);
  void decide(Connection& connection, Time now);
  void challenge(Connection& connection, const std::string& reason, Time now);
  void put_off(Connection& connection, const std::string& reason);
  void welcome(Connection& connection, const Admission& admission, Time now);
  void assign(Time now);
  void tell_assignment(Connection& connection, const Member& member);
  void decide_pending(Time now);
  void expel_hanging(Time now);
  void dismiss(Connection& connection, const FromScheduler& last_message);
  void finish(Connection& connection, Member& member, const std::string& complete, Time now);
  void finish_waiting(Time now);
  void tell_waiting(Time now);
  void tell_lost(const Member& member, const std::string& reason, bool certain);
  void tell_running(const FromScheduler& message);
  void report_lost(const Member& member) const;
  void report_lost_ranks();
  void tell_people(const std::string& text) const;
  void save_if_changed();

  const ServerOptions& options_;
  Membership membership_;
  Time started_;
  Time ticked_;
  Time told_waiting_;
  std::optional<std::vector<int>> told_lost_;  ///< the ranks last passed to on_lost_ranks
  bool changed_ = false;                       ///< whether the membership changed since it was saved
  std::optional<StateWriter> writer_;
  RefusalLog refusals_;
  std::map<std::uint64_t, std::shared_ptr<Connection>> workers_;
};

}  // namespace lockstep::membership
