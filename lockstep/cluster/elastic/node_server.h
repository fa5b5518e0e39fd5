// The service of launchers inside one of them, on a thread of its own.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/membership/service/state_writer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::cluster::elastic {

/// The storage of a job's state, from which the service of another launcher can continue. The service ends when another
/// one has the place.
struct JobPlace {
  std::string job;  ///< --rdzv_id: the only job of such a service
  membership::StatePlace state;
};

struct NodeServerOptions {
  std::vector<UniqueFd> sockets{};  ///< they listen already, on one port
  /// Launchers must have it. Empty: none; then, without TLS, those of other users of this host are refused.
  std::string secret{};
  std::shared_ptr<boost::asio::ssl::context> tls{};  ///< nullptr: plain
  std::optional<JobPlace> place{};                   ///< nullopt: the state is in memory alone
};

/// The service of the jobs whose launchers connect to this port, on a thread of its own. The functions are thread-safe.
class NodeServer {
 public:
  /// Error(data) for a saved state that cannot be used; the errors of StatePlace::load.
  explicit NodeServer(NodeServerOptions options);
  NodeServer(const NodeServer&) = delete;
  NodeServer& operator=(const NodeServer&) = delete;
  /// Ends all connections.
  ~NodeServer();

  /// The number of launchers, of all jobs, that have not left and are not lost.
  int users() const;

  /// Whether it serves: until the destructor, `stop`, or the loss of the place of its state.
  bool serves() const;

  /// Ends all connections, as the destructor does.
  void stop();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cluster::elastic
