// The interface to the service that decides which processes belong to a job and which ranks they have, a scheduler or
// the service of a launcher; and the entry of a process into its job there.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/status_page.h>
#include <lockstep/base/step_times.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// The place of a member in one generation of the job: from one rendezvous of all members to the next.
struct MemberPlace {
  std::int64_t generation = 0;  ///< counts from 1
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the members on the same machine
  int local_size = 1;
  std::string
      store_key;  ///< prefix of the generation's keys in the store; random, so that no other process can guess it
  bool operator==(const MemberPlace&) const = default;
};

struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
};

/// The membership of this process, as long as the object exists. Thread-safe.
class MemberSession {
 public:
  MemberSession() = default;
  MemberSession(const MemberSession&) = delete;
  MemberSession& operator=(const MemberSession&) = delete;
  /// Calls `leave` with success (without, while an exception destroys its owner), unless that was called before.
  virtual ~MemberSession() = default;

  /// Only for the thread that calls `await_next_place`.
  virtual const MemberPlace& place() const noexcept = 0;

  /// Whether lost members are replaced, so that this one can continue in the next generation.
  virtual bool recovers() const noexcept = 0;

  /// With recovery: reports that this member cannot continue in its generation, for this reason, and waits for the
  /// next. Returns at once.
  virtual void ask_again(const std::string& reason) = 0;

  /// After ask_again: waits for the next rendezvous of all members, which begins when the lost ones are replaced, and
  /// updates `place()`. False when the job was completed meanwhile. Error(peer_lost) when the job was given up,
  /// Error(environment) when this member is refused.
  virtual bool await_next_place() = 0;

  /// Why pending operations of `generation` cannot succeed, once that is known.
  virtual std::optional<std::string> broken(std::int64_t generation) const = 0;

  /// The same for the present generation, for use during the rendezvous, before ranks can watch each other's processes
  /// and connections. With recovery it is also set once the connection of one of its members has ended, usually because
  /// its process has ended.
  virtual std::optional<std::string> lost() const = 0;
  /// Throws Error(peer_lost) with that reason, if there is one.
  virtual void throw_if_lost() const = 0;

  /// Sets a function that is called with the reason of `broken`, on a thread of this object, for the present
  /// generation; at once if there is a reason already. nullptr: removes it, and waits for a call that is running.
  virtual void on_broken(std::function<void(const std::string& reason)> call) = 0;

  /// This machine's address, as seen by that service.
  virtual std::string own_address() const = 0;

  /// Rank 0 publishes the address of the store that it has opened. All ranks await it; Error(timeout) when it is not
  /// published by the deadline, Error(peer_lost) when the job ended instead.
  virtual void publish_store(const std::string& host, std::uint16_t port) = 0;
  virtual StoreAddress await_store(std::chrono::steady_clock::time_point deadline) = 0;

  /// Reports a completed step. `time`: the duration of a recent step.
  virtual void completed_step(std::int64_t step, const std::optional<StepTime>& time) noexcept = 0;

  /// Sets a function that reads this member's status page, called on a thread of this object when the member hangs, and
  /// before reports to a service that shows the job. nullptr: removes it, after a last call on this thread.
  virtual void read_page_with(std::function<PageContent()> read) = 0;

  /// Reports how this member ends. Only the first call counts. Returns at once.
  virtual void leave(bool ok, const std::string& error) noexcept = 0;
};

// ---- the entry, in session/enter_job.cpp

struct EnterOptions {
  ClusterOptions cluster{};                 ///< the scheduler's settings, where the environment does not set them
  std::chrono::milliseconds start_timeout;  ///< until all members have registered
  bool rejoins = false;                     ///< the program can continue with a member that replaces a lost one
};

struct EnteredWorld {
  World world;
  std::shared_ptr<MemberSession> session;  ///< nullptr where the launcher set the ranks
};

/// Enters the job where a service decides on its members, and returns the world with this process's rank once all
/// members have registered: with Rendezvous::scheduler, or with the service of a launcher (World::job_service) where
/// the program rejoins. Any other world is returned unchanged. Errors: those of find_cluster(), of the files that it
/// names, and of membership::WorkerSession.
EnteredWorld enter_job(const World& world, const EnterOptions& options, const Environment& environment);

/// `world` with the rank, size and keys of `place`.
World at_place(World world, const MemberPlace& place);

}  // namespace lockstep
