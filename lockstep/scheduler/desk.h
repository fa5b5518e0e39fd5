// The scheduler's message handling: it decides by admission.h and membership.h, and sends messages to the affected
// workers.
#pragma once

#include <lockstep/scheduler/refusal_log.h>
#include <lockstep/scheduler/server.h>
#include <lockstep/scheduler/session.h>
#include <lockstep/scheduler/state_writer.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::scheduler {

/// For use by one thread.
class Desk {
 public:
  /// Continues from the saved state, if there is one.
  explicit Desk(const ServerOptions& options, Time now);

  /// A new connection of a worker.
  void greet(const std::shared_ptr<Session>& session);
  /// A message from it. Error(data) when that is not a message, or not allowed now: the connection should be closed.
  void hear(Session& session, const std::string& text, Time now);
  /// The connection has ended.
  void forget(Session& session, const std::string& reason, Time now);

  /// Work that depends on time. Returns the end of the job, once it has ended and the workers were told.
  std::optional<Ending> tick(Time now);

  std::string status(Time now) const;

  /// The log of refusals, also for connections that were never passed to this object.
  RefusalLog& refusals() { return refusals_; }

 private:
  void take(Session& session, const Register& request, Time now);
  void take(Session& session, const StoreAt& store, Time now);
  void take(Session& session, const Beat& beat, Time now);
  void take(Session& session, const Again& again, Time now);
  void take(Session& session, const Leave& leave, Time now);

  Member& member_of(const Session& session);
  void decide(Session& session, Time now);
  void challenge(Session& session, const std::string& reason, Time now);
  void put_off(Session& session, const std::string& reason);
  void welcome(Session& session, const Admission& admission, Time now);
  void seat(Time now);
  void tell_seat(Session& session, const Member& member);
  void decide_pending(Time now);
  void expel_hanging(Time now);
  void tell_waiting(Time now);
  void tell_lost(const Member& member, const std::string& reason, bool certain);
  void tell_running(const FromScheduler& message);
  void save_if_changed();

  const ServerOptions& options_;
  Roll roll_;
  Time started_;
  Time ticked_;
  Time told_waiting_;
  bool changed_ = false;  ///< since the state was saved
  std::optional<StateWriter> writer_;
  RefusalLog refusals_;
  std::map<std::uint64_t, std::shared_ptr<Session>> workers_;
};

}  // namespace lockstep::scheduler
