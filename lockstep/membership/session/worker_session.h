// The session of a worker with the scheduler: registration, rank, rendezvous of the workers, and heartbeats.
#pragma once

#include <lockstep/membership/member_session.h>
#include <lockstep/net/tls_contexts.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::membership {

struct WorkerSessionOptions {
  std::string host;  ///< the scheduler's name or address
  std::uint16_t port = 0;
  std::string node_id;                             ///< empty: a random one
  std::string host_name;                           ///< the name of this machine, for messages
  std::string machine;                             ///< equal for processes that share a machine
  bool server = false;                             ///< a parameter server
  int servers = 0;                                 ///< the number of servers in the job
  std::string secret;                              ///< empty: none
  std::shared_ptr<boost::asio::ssl::context> tls;  ///< nullptr: plain
  net::PeriodicTask check_of_certificates;
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  bool of_launcher = false;  ///< the service belongs to a launcher, which knows the ranks: messages name ranks
  int turn = 0;              ///< for a launcher's rank: see Register
  bool recovers = false;  ///< with recovery: a lost worker is replaced, and this one continues with the next generation
  std::chrono::milliseconds heartbeat = std::chrono::seconds(3);
  std::chrono::milliseconds heartbeat_limit =
      std::chrono::seconds(30);  ///< after this silence the scheduler's host counts as lost
};

/// The session of a worker. Its own thread keeps the connection, and reconnects as long as this object exists: training
/// continues without the scheduler. The interface describes its members.
class WorkerSession final : public MemberSession {
 public:
  /// Registers, and waits until all workers have registered; they may start in any order. Error(timeout) naming what
  /// was missing, Error(environment) when the scheduler refuses this worker or one side refuses the other's
  /// certificate.
  explicit WorkerSession(WorkerSessionOptions options);
  /// Waits up to 5 s until the scheduler has received the report of this worker's end.
  ~WorkerSession() override;

  /// For exit(), which destroys nothing here: reports this error, waits up to 5 s until the scheduler has received it,
  /// and ends the thread, because that could use objects that exit() destroys. No function may be called after it.
  void end_at_exit(const std::string& error) noexcept;

  const MemberPlace& place() const noexcept override;
  bool recovers() const noexcept override;
  void ask_again(const std::string& reason) override;
  bool await_next_place() override;
  std::optional<std::string> broken(std::int64_t generation) const override;
  std::optional<std::string> lost() const override;
  void throw_if_lost() const override;
  void on_broken(std::function<void(const std::string& reason)> call) override;
  std::string own_address() const override;
  void publish_store(const std::string& host, std::uint16_t port) override;
  StoreAddress await_store(std::chrono::steady_clock::time_point deadline) override;
  void completed_step(std::int64_t step, const std::optional<StepTime>& time) noexcept override;
  void read_page_with(std::function<PageContent()> read) override;
  void leave(bool ok, const std::string& error) noexcept override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::membership
