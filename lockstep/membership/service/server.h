// The scheduler's server: one port for workers (WebSocket) and for status requests (HTTP).
#pragma once

#include <lockstep/membership/membership.h>
#include <lockstep/membership/service/service.h>
#include <lockstep/membership/service/state_writer.h>
#include <lockstep/net/tls_contexts.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::membership {

/// The job, and the server's own settings. With `programs_follow`, after one job the next one begins, until `stop`.
struct ServerOptions : JobOptions {
  std::string host = "127.0.0.1";     ///< a name or an address of this machine, to listen on
  std::uint16_t port = 0;             ///< 0: a free port
  std::optional<StatePlace> state{};  ///< kept up to date; the scheduler continues from it when it exists
  std::shared_ptr<boost::asio::ssl::context> tls{};  ///< nullptr: plain
  net::PeriodicTask check_of_certificates{};
  std::string version{};                 ///< of Lockstep, for the status
  std::size_t most_connections = 10000;  ///< beyond this, the oldest connections that did not register are closed
  std::chrono::milliseconds step = std::chrono::seconds(10);  ///< the limit for a handshake, a request, a registration
  /// Called when a worker is silent, or hangs: the job continues without this process, of this rank (-1: it has none).
  /// Throws nothing.
  std::function<void(int rank, std::int64_t process)> on_lost{};
  /// Called when such a process has reconnected before another one took its place, or has shown that it does not hang.
  /// Throws nothing.
  std::function<void(int rank, std::int64_t process)> on_back{};
  /// Called when a job has got its ranks, and when lost_ranks() has changed since. Throws nothing.
  std::function<void(const std::vector<int>& ranks)> on_lost_ranks{};
  /// Receives the membership about once a second and at the end of the job, with the pages of its members. Throws
  /// nothing.
  std::function<void(const Membership&, const std::deque<LoggedDecision>&)> on_look{};
  /// Called at the end of each job, where programs follow each other; throws nothing.
  std::function<void(const Ending&)> on_ended{};
};

/// The cause for the end of a scheduler: its job, a signal, or `stop`.
struct RunEnd {
  Ending ending{false, "the scheduler was stopped"};
  int signal = 0;
};

/// The thread that calls `run` does all the work, without blocking: no peer delays another one.
class Server {
 public:
  /// Opens the port. Error(io) when that cannot be done, Error(data) for a saved state that cannot be used.
  explicit Server(ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  std::uint16_t port() const;

  /// Runs until the job has ended, one of `signals` arrives, or `stop` is called.
  RunEnd run(const std::vector<int>& signals = {});

  /// Ends `run` soon, without a message to the workers, which then try to connect to another scheduler. Thread-safe.
  void stop();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::membership
