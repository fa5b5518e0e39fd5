// The service that decides who belongs to a job, as a pure state machine: a state, an input and the time give the next
// state and outputs. It has no connection, no clock, no file and no random numbers; server.h has them. So the same code
// runs in a scheduler, in a launcher, and in a simulation of thousands of jobs (tests/simulation/).
#pragma once

#include <lockstep/base/log.h>
#include <lockstep/membership/admission.h>
#include <lockstep/membership/membership.h>
#include <lockstep/membership/messages.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::membership {

/// The job of a service.
struct JobOptions {
  int workers = 1;
  bool recovery = false;
  bool programs_follow = false;  ///< see Membership
  TimeLimits limits{};
  std::string secret{};  ///< workers must have it; empty: none
  bool watched = false;  ///< see Hello
};

/// The number of a connection; a number is not used twice.
using ConnectionId = std::uint64_t;

/// A connection on which a process may register.
struct Peer {
  std::string address;              ///< "10.0.0.2:4711"
  std::string nonce;                ///< of our Hello
  std::string nonce_of_worker;      ///< of its Register
  std::optional<Applicant> asking;  ///< it has registered, and there is no decision yet
  bool is_worker = false;           ///< it is admitted
  std::optional<Time> expelled;     ///< when it got the request to end, because it hangs
  bool closing = false;             ///< its messages do not count any more
  bool cut = false;                 ///< it got a Close that does not wait for messages
};

/// What the service decided, and why.
struct LoggedDecision {
  Time at;
  std::string text;
};

/// The whole state of a service. A plain value.
struct ServiceState {
  JobOptions options;
  Membership membership;
  std::map<ConnectionId, Peer> peers;
  Time started;
  Time stepped;                                ///< the last step
  Time waits_sent;                             ///< when waiting workers got their last Wait
  std::optional<std::vector<int>> known_lost;  ///< the ranks of the last RanksLost
  std::deque<LoggedDecision> decisions;        ///< the last ten, for the status
  bool changed = false;                        ///< the membership changed since the last Save
  bool ended = false;                          ///< the job has ended; nothing follows
};

// ---- inputs

struct Opened {
  ConnectionId connection = 0;
  std::string address;
};
struct Received {
  ConnectionId connection = 0;
  FromWorker message;
};
struct Closed {
  ConnectionId connection = 0;
  std::string reason;
  bool by_service = false;  ///< by this side (a Close, or a limit of the server), not by the process or the network
};
struct Tick {};  ///< about every 100 ms

using ServiceInput = std::variant<Opened, Received, Closed, Tick>;

// ---- outputs, in the order in which the caller carries them out

struct Send {
  ConnectionId connection = 0;
  FromScheduler message;
};
/// Closes a connection: at once, or when all messages to it are sent.
struct Close {
  ConnectionId connection = 0;
  std::string reason;  ///< empty: when all messages are sent
};
/// The membership is to be saved. `first`: before the outputs that follow, as they depend on it.
struct Save {
  bool first = false;
};
struct LogLine {
  LogLevel level = LogLevel::info;
  std::string text;
};
/// A refused process, for a log that is limited.
struct Refusal {
  std::string who;
  std::string reason;
};
/// The job continues without this process of this rank (-1: it has none), which is silent, or hangs.
struct ProcessLost {
  int rank = -1;
  std::int64_t pid = 0;
};
/// Such a process has reconnected before another one took its place, or shown that it does not hang.
struct ProcessBack {
  int rank = 0;
  std::int64_t pid = 0;
};
/// lost_ranks() has changed, or a job has got its ranks.
struct RanksLost {
  std::vector<int> ranks;
};
struct JobEnded {
  Ending ending;
};

using ServiceOutput = std::variant<Send, Close, Save, LogLine, Refusal, ProcessLost, ProcessBack, RanksLost, JobEnded>;

/// Makes a random text that no other process can guess.
using NewToken = std::function<std::string()>;

/// The state of a new job, which the caller saves; with `saved` (print_state), of the job that it describes, unless
/// that has ended. Error(data) for a text that is not the state of such a job.
ServiceState begin_service(const JobOptions& options, const std::optional<std::string>& saved, Time now,
                           const NewToken& new_token);

/// Error(data), with the state otherwise as before, for a message that is not allowed now: the caller closes that
/// connection.
std::vector<ServiceOutput> step(ServiceState& state, const ServiceInput& input, Time now, const NewToken& new_token);

/// Whether a process registered on this connection, admitted or not.
bool has_registered(const ServiceState& state, ConnectionId connection);
bool is_admitted(const ServiceState& state, ConnectionId connection);

}  // namespace lockstep::membership
