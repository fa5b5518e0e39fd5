// A worker's side of the membership, as a pure state machine: messages of the service and wishes of the process come
// in, messages and events go out. It has no connection, no clock and no thread; worker_session.h has them.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/membership/messages.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::membership {

/// The facts about this process that do not change.
struct SessionFacts {
  std::string where;    ///< the address of the service, for messages
  std::string node_id;  ///< see Register
  bool named = false;
  std::string life;
  std::string host;
  std::string machine;
  std::int64_t pid = 0;
  bool server = false;
  int servers = 0;
  int turn = 0;
  std::string secret;        ///< empty: none
  std::string nonce;         ///< random: the service proves with it that it has the secret
  bool of_launcher = false;  ///< the service belongs to a launcher
  bool recovers = false;     ///< lost workers are replaced
};

/// Why the operations of a generation cannot succeed.
struct LostGeneration {
  std::int64_t generation = 0;
  std::string why;
};

/// The whole state of a session. A plain value.
struct SessionState {
  SessionFacts facts;
  bool connected = false;
  bool watched = false;                      ///< see Hello; only the thread of the session writes it
  std::string greeting_job;                  ///< of the last Hello
  std::string job;                           ///< under which it got its rank
  std::optional<Wait> wait;                  ///< the last one
  std::optional<RankAssignment> assignment;  ///< the newest
  std::optional<StoreAt> store;              ///< of that generation
  std::optional<StoreAt> own_store;          ///< to be sent again on each connection, as the next three
  std::optional<Leave> leave;
  std::optional<Again> again;                             ///< until an assignment of a later generation
  std::optional<LostGeneration> broken;                   ///< the newest certain loss
  std::optional<LostGeneration> lost;                     ///< the newest certain loss, or a connection that ended
  std::string trouble;                                    ///< why there is no connection now
  std::optional<std::pair<ErrorKind, std::string>> over;  ///< why there will be no connection any more
  bool complete = false;                                  ///< the job was completed
};

// ---- inputs besides the messages of the service; the last three are from this process itself

/// The connection ended, or could not be made.
struct Disconnected {
  std::string why;
  bool final = false;  ///< another attempt would fail as well
};

/// This process, rank 0, has opened the store of its generation.
struct StoreOpened {
  StoreAt store;
};

using SessionInput = std::variant<FromScheduler, Disconnected, StoreOpened, Again, Leave>;

// ---- outputs

/// Operations of the present generation cannot succeed.
struct GenerationBroken {
  std::string why;
};
/// This process hangs, and is to report its stack and to end.
struct MustEnd {
  std::string reason;
};
struct SessionLine {
  LogLevel level = LogLevel::warning;
  std::string text;
};

using SessionOutput = std::variant<FromWorker, GenerationBroken, MustEnd, SessionLine>;

/// Error(data) for a message that is not allowed now; the connection is to be closed then.
std::vector<SessionOutput> step(SessionState& state, const SessionInput& input);

/// "the scheduler", "the launcher's job service".
const char* service_name(const SessionFacts& facts);

/// Why pending operations of the generation `place` cannot succeed, also for the time of a rendezvous: with recovery an
/// ended connection is enough, as another generation follows.
std::optional<std::string> loss_in(const SessionState& state, std::int64_t place);

/// "the scheduler at h:8118 (no answer yet)", "the other ranks, 2 of 4 have registered".
std::string describe_wait(const SessionState& state);

}  // namespace lockstep::membership
