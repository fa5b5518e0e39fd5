// What the scheduler does with what its connections bring: asks admission.h and membership.h, and tells those whom it
// concerns.
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

/// One thread.
class Desk {
 public:
  /// Goes on with the saved state, if there is one.
  explicit Desk(const ServerOptions& options, Time now);

  /// A connection that wants to be a worker's.
  void greet(const std::shared_ptr<Session>& session);
  /// What it sent. Error(data) when that is no message, or one out of place: the connection is not worth keeping.
  void hear(Session& session, const std::string& text, Time now);
  /// It has ended.
  void forget(Session& session, const std::string& reason, Time now);

  /// What is due with time. The end of the job, once it has come and the workers were told.
  std::optional<Ending> tick(Time now);

  std::string status(Time now) const;

  /// Of connections, too, that never came to this desk.
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
