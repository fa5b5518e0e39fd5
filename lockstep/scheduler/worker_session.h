// The session of a worker with the scheduler: registration, rank, rendezvous of the workers, and heartbeats.
#pragma once

#include <lockstep/base/step_times.h>
#include <lockstep/scheduler/messages.h>
#include <lockstep/scheduler/periodic_task.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::scheduler {

struct WorkerSessionOptions {
  std::string host;  ///< the scheduler's, a name or an address
  std::uint16_t port = 0;
  std::string node_id;                             ///< empty: a random one
  std::string host_name;                           ///< of this machine, for people
  std::string machine;                             ///< equal for processes that share a machine
  std::string secret;                              ///< empty: none
  std::shared_ptr<boost::asio::ssl::context> tls;  ///< nullptr: plain
  PeriodicTask check_of_certificates;
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  bool of_launcher = false;  ///< the service is that of a launcher, which knows the ranks: other words for people
  bool recovers = false;  ///< with recovery: a lost worker is replaced, and this one goes on with the next generation
  std::chrono::milliseconds heartbeat = std::chrono::seconds(3);
  std::chrono::milliseconds silence = std::chrono::seconds(30);  ///< after which the scheduler's host counts as lost
};

/// Its own thread keeps the connection, and connects again as long as this object exists: training continues without
/// the scheduler. Thread-safe.
class WorkerSession {
 public:
  /// Registers, and waits until all workers have registered; they may start in any order. Error(timeout) with what was
  /// awaited, Error(environment) when the scheduler refuses this worker or one side refuses the other's certificate.
  explicit WorkerSession(WorkerSessionOptions options);
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;
  /// Calls `leave` with success (without, while an exception destroys its owner), unless that was called before; then
  /// waits up to 5 s until the scheduler has received it.
  ~WorkerSession();

  /// The rank of this worker, and the number of ranks. Only for the thread that calls `await_next_place`.
  const RankAssignment& place() const noexcept;

  bool recovers() const noexcept;

  /// With recovery: tells the scheduler that this worker cannot continue in its generation, for this reason, and waits
  /// for the next. Returns at once.
  void ask_again(const std::string& reason);

  /// After ask_again: waits for the next rendezvous of all workers, that is, until the lost ones are replaced, and
  /// updates `place()`. False when the job was completed meanwhile. Error(peer_lost) when the scheduler
  /// has given the job up, Error(environment) when it refuses this worker.
  bool await_next_place();

  /// Why pending operations of `generation` cannot succeed, once the scheduler has reported it.
  std::optional<std::string> broken(std::int64_t generation) const;

  /// The same for the present generation, for use during the rendezvous, before ranks can watch each other's processes
  /// and connections; with recovery also set once the connection of one of its workers has ended, which most often
  /// means that its process has ended.
  std::optional<std::string> lost() const;
  /// Error(peer_lost) with that reason, if there is one.
  void throw_if_lost() const;

  /// Sets a function that is called with the reason of `broken`, on this object's thread, for the present generation;
  /// at once if there is a reason already. nullptr: removes it, and waits for a call that is running.
  void on_broken(std::function<void(const std::string& reason)> call);

  /// This machine's address on its connection to the scheduler.
  std::string own_address() const;

  /// Rank 0 publishes the address of the store that it has opened. All ranks await it; Error(timeout) when it is not
  /// published by the deadline, Error(peer_lost) when the job ended instead.
  void publish_store(const std::string& host, std::uint16_t port);
  StoreAt await_store(std::chrono::steady_clock::time_point deadline);

  /// Reports a completed step for the scheduler's status. `time`: of a recent step.
  void completed_step(std::int64_t step, const std::optional<StepTime>& time) noexcept;

  /// Sets a function that describes this worker's progress ("had completed step 7 and ..."), called on this object's
  /// thread when the worker hangs. nullptr: removes it, and waits for a call that is running.
  void describe_progress_with(std::function<std::string()> words);

  /// Tells the scheduler how this worker ends. Only the first call counts. Returns at once.
  void leave(bool ok, const std::string& error) noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::scheduler
