// The messages between workers and the scheduler: one JSON object for each WebSocket message, {"type": ..., ...}.
//
// A worker connects to /v1/worker; the scheduler sends Hello, the worker sends Register, and waits until it has a rank.
// A reader ignores unknown fields, so that later versions may add some; changes of existing fields need another
// protocol number. All input is from a peer that may be hostile: Error(data) names what is wrong with it.
#pragma once

#include <lockstep/base/status_page.h>
#include <lockstep/membership/member_session.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep::membership {

inline constexpr int kProtocol = 1;
inline constexpr std::size_t kLongestMessage = std::size_t{16} * 1024;
inline constexpr std::size_t kLongestName = 256;   ///< bytes of names, addresses, tokens
inline constexpr std::size_t kLongestText = 4096;  ///< bytes of reasons
inline constexpr int kMostWorkers = 1 << 20;

// ---- from the scheduler

/// The first message on a connection.
struct Hello {
  int protocol = kProtocol;
  std::string job;       ///< a random name of the job; a scheduler that restarts with its state keeps it
  std::string nonce;     ///< challenge for the worker's proof of the secret
  bool secret = false;   ///< whether the scheduler needs such a proof
  bool watched = false;  ///< whether it shows the job: heartbeats are to have a page
  bool operator==(const Hello&) const = default;
};

/// The worker has to wait for a rank, or for the next generation.
struct Wait {
  int present = 0;
  int wanted = 0;
  std::string reason;  ///< the reason to wait, if it is not the other workers
  bool operator==(const Wait&) const = default;
};

/// The worker is not registered; trying again would not help.
struct Refused {
  std::string reason;
  bool operator==(const Refused&) const = default;
};

/// All workers have registered, and this is the rank of the receiver.
struct RankAssignment : MemberPlace {
  std::string proof;  ///< proof that the scheduler has the secret; empty without a secret
  bool operator==(const RankAssignment&) const = default;
};

/// From the worker with rank 0 to the scheduler, and from there to all workers: the rendezvous store of this
/// generation.
struct StoreAt {
  std::int64_t generation = 0;
  std::string host;
  int port = 0;
  bool operator==(const StoreAt&) const = default;
};

/// Another worker was lost, or cannot continue.
struct Lost {
  std::int64_t generation = 0;
  std::string node_id;
  int rank = 0;
  std::string reason;
  /// Pending operations of this generation cannot succeed. False: only its connection ended, and the other ranks detect
  /// by themselves whether its process has ended too.
  bool certain = false;
  bool operator==(const Lost&) const = default;
};

/// A request for an immediate heartbeat.
struct Ping {
  bool operator==(const Ping&) const = default;
};

/// The job has ended, or the scheduler ends, or this worker's Leave is confirmed: it need not reconnect.
struct Ended {
  bool ok = true;
  std::string reason;
  bool hangs = false;  ///< only for the receiver: it hangs, and is to end
  bool operator==(const Ended&) const = default;
};

// ---- from a worker

struct Register {
  int protocol = kProtocol;
  std::string node_id;
  bool named = false;   ///< the user chose the id; else it is random
  std::string life;     ///< random, of this process: identifies it on another connection
  std::string host;     ///< the name of its host, for messages
  std::string machine;  ///< equal for processes that share a machine
  std::int64_t pid = 0;
  bool server = false;          ///< a parameter server, not a worker
  std::optional<int> servers;   ///< the number of servers in the job; absent: none
  std::string job;              ///< the job in the Hello under which it got its rank; empty before that
  std::int64_t generation = 0;  ///< the generation in which it got its rank; 0: never
  std::optional<int> rank;      ///< the rank that it got then
  std::string store_key;        ///< the prefix of that generation's keys
  std::optional<int> turn;      ///< for a launcher's rank: the number of nodes that were replaced before its own began
  std::string nonce;            ///< challenge for the scheduler's proof
  std::string proof;            ///< proof that it has the secret
  bool operator==(const Register&) const = default;
};

/// The heartbeat of a worker.
struct Heartbeat {
  std::optional<std::int64_t> step{};     ///< the last completed step
  std::optional<std::int64_t> step_us{};  ///< the present duration of a step
  std::optional<std::int64_t> own_us{};   ///< the part of the step that was not spent blocked in collectives
  std::optional<PageContent> page{};      ///< of the worker's status page; with Hello::watched
  std::optional<std::int64_t> memory{};   ///< resident, in bytes; in the same way
  bool operator==(const Heartbeat&) const = default;
};

/// With recovery: the worker cannot continue in this generation, keeps its state, and waits for the next.
struct Again {
  std::int64_t generation = 0;
  std::string reason;
  bool operator==(const Again&) const = default;
};

/// The worker has finished.
struct Leave {
  bool ok = true;
  std::string error;  ///< why it failed
  bool operator==(const Leave&) const = default;
};

using FromScheduler = std::variant<Hello, Wait, Refused, RankAssignment, StoreAt, Lost, Ping, Ended>;
using FromWorker = std::variant<Register, StoreAt, Heartbeat, Again, Leave>;

FromScheduler parse_from_scheduler(std::string_view text);
FromWorker parse_from_worker(std::string_view text);

/// Texts that are too long are cut, and invalid UTF-8 is replaced, so that the other side accepts the message.
std::string print(const FromScheduler& message);
std::string print(const FromWorker& message);

}  // namespace lockstep::membership
