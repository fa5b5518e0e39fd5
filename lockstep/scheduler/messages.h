// What workers and the scheduler tell each other: one JSON object a WebSocket message, {"type": ..., ...}.
//
// A worker connects to /v1/worker; the scheduler says hello, the worker registers, and waits until it is seated. Fields
// that a reader does not know are ignored, so that later versions may add some; a change of what exists takes another
// protocol number. Everything read here came from a peer that may be hostile: Error(data) says what is wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep::scheduler {

inline constexpr int kProtocol = 1;
inline constexpr std::size_t kLongestMessage = std::size_t{16} * 1024;
inline constexpr std::size_t kLongestName = 256;   ///< bytes of names, addresses, tokens
inline constexpr std::size_t kLongestText = 4096;  ///< bytes of reasons
inline constexpr int kMostWorkers = 1 << 20;

// ---- from the scheduler

/// First of all.
struct Hello {
  int protocol = kProtocol;
  std::string job;      ///< a random name of the job; a scheduler that comes back with its state keeps it
  std::string nonce;    ///< what a proof of the secret answers
  bool secret = false;  ///< whether it wants such a proof
  bool operator==(const Hello&) const = default;
};

/// Registered, and not yet seated.
struct Wait {
  int present = 0;
  int wanted = 0;
  std::string reason;  ///< what for, if not for the others
  bool operator==(const Wait&) const = default;
};

/// Not registered; trying again would not help.
struct Refused {
  std::string reason;
  bool operator==(const Refused&) const = default;
};

/// All workers are there, and this is the rank of the one that is told.
struct Seated {
  std::int64_t generation = 0;  ///< counts the meetings of the job from 1
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among those of the same machine
  int local_size = 1;
  std::string store_key;  ///< keys of the store lie under it; nobody else can guess it
  std::string proof;      ///< that the scheduler knows the secret; empty when there is none
  bool operator==(const Seated&) const = default;
};

/// From the worker with rank 0 to the scheduler, and from there to all: where the ranks of this generation meet.
struct StoreAt {
  std::int64_t generation = 0;
  std::string host;
  int port = 0;
  bool operator==(const StoreAt&) const = default;
};

/// Another worker was lost, or cannot go on.
struct Lost {
  std::int64_t generation = 0;
  std::string node_id;
  int rank = 0;
  std::string reason;
  /// Nothing that is under way in this generation will end well. False: only its connection ended, and whoever computes
  /// with it sees for himself whether its process has, too.
  bool certain = false;
  bool operator==(const Lost&) const = default;
};

/// "Say something, now."
struct Ping {
  bool operator==(const Ping&) const = default;
};

/// The job is over, or the scheduler ends: nobody needs to come back.
struct Ended {
  bool ok = true;
  std::string reason;
  bool operator==(const Ended&) const = default;
};

// ---- from a worker

struct Register {
  int protocol = kProtocol;
  std::string node_id;
  bool named = false;   ///< somebody chose the id; else it is random
  std::string life;     ///< random, of this process: with it, it is known again on another connection
  std::string host;     ///< its name, for people
  std::string machine;  ///< equal for processes that share a machine
  std::int64_t pid = 0;
  std::string job;              ///< of the Hello it was seated under; empty before that
  std::int64_t generation = 0;  ///< in which it was seated; 0: never
  std::optional<int> rank;      ///< then
  std::string nonce;            ///< what the scheduler's proof answers
  std::string proof;            ///< that it knows the secret
  bool operator==(const Register&) const = default;
};

/// "I am alive."
struct Beat {
  std::optional<std::int64_t> step{};     ///< the last that was completed
  std::optional<std::int64_t> step_us{};  ///< how long a step takes just now
  std::optional<std::int64_t> own_us{};   ///< of that, what was not spent blocked in collectives
  bool operator==(const Beat&) const = default;
};

/// The worker cannot go on in this generation, keeps what it has, and waits for the next: with recovery.
struct Again {
  std::int64_t generation = 0;
  std::string reason;
  bool operator==(const Again&) const = default;
};

/// The worker is done.
struct Leave {
  bool ok = true;
  std::string error;  ///< why not
  bool operator==(const Leave&) const = default;
};

using FromScheduler = std::variant<Hello, Wait, Refused, Seated, StoreAt, Lost, Ping, Ended>;
using FromWorker = std::variant<Register, StoreAt, Beat, Again, Leave>;

FromScheduler parse_from_scheduler(std::string_view text);
FromWorker parse_from_worker(std::string_view text);

/// Texts that are too long are cut, and bytes that are no UTF-8 replaced, so that the other side accepts it.
std::string print(const FromScheduler& message);
std::string print(const FromWorker& message);

}  // namespace lockstep::scheduler
