// A launcher's connection with the service of its job, kept by a thread of its own while the launcher waits for its
// ranks.
#pragma once

#include <lockstep/cluster/elastic/node_session.h>
#include <lockstep/cluster/processes/event_loop.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::cluster::elastic {

/// Where the service is.
struct ServiceAt {
  std::string host;
  std::uint16_t port = 0;
  std::string secret{};                              ///< empty: none
  std::shared_ptr<boost::asio::ssl::context> tls{};  ///< nullptr: plain
};

struct NodeLinkOptions {
  std::string job = "none";
  NodeDescription node{};
  Policy policy{};
  std::string name{};  ///< of the service, in messages: "the job's service at 10.0.0.1:29400"
  /// Finds the service before each connection, where it moves; runs it here where no launcher does. May block. Throws
  /// an Error when it cannot be found now.
  std::function<ServiceAt()> find{};
  bool moves = false;  ///< with the loss of the launcher that runs it, another one does
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);
  std::chrono::milliseconds join_limit = std::chrono::seconds(60);  ///< until the service is reached
  std::chrono::milliseconds limit = std::chrono::seconds(10);       ///< without a connection, afterwards
};

/// The membership of this launcher. Only the thread that made the object may call the functions. Those that return a
/// value of the job throw the error that ended the membership: Error(timeout) and Error(peer_lost) when the service is
/// lost; `may_join_again` says whether it may only be cut off.
class NodeLink {
 public:
  /// Joins the job: returns when this launcher is one of its nodes. Reports the wait on stderr. Error(timeout) when the
  /// service cannot be reached in time, Error(environment) when the secrets differ or only one side has one,
  /// Error(invalid_argument) when the job has ended.
  explicit NodeLink(NodeLinkOptions options);
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;
  ~NodeLink();

  Ticket ticket() const;

  /// The newest view of the job. Lowers `changed_fd`.
  JobView view();
  /// This host's wall clock minus the service's, plus the delay of the newest view.
  std::chrono::milliseconds clock_ahead() const;
  /// Readable when `view` has changed.
  int changed_fd() const;
  /// Readable once this round has ended for this node, or the membership has; for one round at a time.
  int over_fd(int round);

  void report(const NodeReport& report);
  void report_ends(const RanksEnded& ended);
  void publish_meeting(const RanksMeet& meet);
  void publish_losses(const RanksLost& lost);
  /// What node 0 has published in this round.
  RankLosses losses(int round);

  /// Takes one of the job's replacements; false when none is left, or the service does not answer in time.
  bool take_replacement();

  /// Waits until the service has received that this launcher leaves, or the membership has ended; at most `limit`.
  void await_goodbye(std::chrono::milliseconds limit);

  /// After an error: whether this launcher may join the job again, as a new node.
  bool may_join_again() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cluster::elastic
