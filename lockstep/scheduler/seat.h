// A worker's place in a job: how it finds the others through the scheduler, and stays in touch with it.
#pragma once

#include <lockstep/base/step_times.h>
#include <lockstep/scheduler/chore.h>
#include <lockstep/scheduler/messages.h>

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

struct SeatOptions {
  std::string host;  ///< the scheduler's, a name or an address
  std::uint16_t port = 0;
  std::string node_id;                             ///< empty: a random one
  std::string host_name;                           ///< of this machine, for people
  std::string machine;                             ///< equal for processes that share a machine
  std::string secret;                              ///< empty: none
  std::shared_ptr<boost::asio::ssl::context> tls;  ///< nullptr: plain
  Chore check_of_certificates;
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  bool recovers = false;  ///< with recovery: a lost worker is replaced, and this one goes on with the next generation
  std::chrono::milliseconds heartbeat = std::chrono::seconds(3);
  std::chrono::milliseconds silence = std::chrono::seconds(30);  ///< after which the scheduler's host counts as lost
};

/// A thread of its own keeps the connection, and makes it anew for as long as this lives: training goes on without the
/// scheduler. Thread-safe.
class Seat {
 public:
  /// Registers, and waits until all workers have; it does not matter who starts first. Error(timeout) with what was
  /// waited for, Error(environment) when the scheduler refuses this worker or one refuses the other's certificate.
  explicit Seat(SeatOptions options);
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  /// As `leave` with success (without, while an exception ends its owner), unless that was called before; then waits up
  /// to 5 s for the scheduler to hear it.
  ~Seat();

  /// Which rank this is, and of how many. For whoever calls `await_next_place`.
  const Seated& place() const noexcept;

  bool recovers() const noexcept;

  /// With recovery: this worker cannot go on in its generation, for this reason, and waits for the next. Waits for
  /// nothing.
  void ask_again(const std::string& reason);

  /// Then: waits until all workers have come together again, which is until somebody took the place of those that were
  /// lost, and makes that `place()`. False when the job was completed meanwhile. Error(peer_lost) when the scheduler
  /// has given it up, Error(environment) when it refuses this worker.
  bool await_next_place();

  /// Why nothing that is under way in `generation` will end well, once the scheduler has said so.
  std::optional<std::string> broken(std::int64_t generation) const;

  /// For those who meet, and do not know each other's processes and connections yet: the same of the present
  /// generation; with recovery also once the connection of one of its workers has ended, which most often means that
  /// its process has.
  std::optional<std::string> lost() const;
  /// Error(peer_lost) with that reason, if there is one.
  void throw_if_lost() const;

  /// Called with that reason, on this object's thread, when the scheduler says so of the present generation; at once if
  /// it has. nullptr: no longer, and waits for a call that is under way.
  void on_broken(std::function<void(const std::string& reason)> call);

  /// This machine's address on the way to the scheduler.
  std::string own_address() const;

  /// Rank 0: where it has opened the store. All: where that is; Error(timeout) when nobody has said by then, and
  /// Error(peer_lost) when the job ended instead.
  void publish_store(const std::string& host, std::uint16_t port);
  StoreAt await_store(std::chrono::steady_clock::time_point deadline);

  /// For the scheduler's status. `time`: of a recent step.
  void completed_step(std::int64_t step, const std::optional<StepTime>& time) noexcept;

  /// Who says, on this object's thread, how far this worker has come ("had completed step 7 and ..."), when it is found
  /// to hang. nullptr: nobody any more, and waits for a call that is under way.
  void describe_progress_with(std::function<std::string()> words);

  /// Tells the scheduler how this worker ends. The first call counts. Waits for nothing.
  void leave(bool ok, const std::string& error) noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::scheduler
