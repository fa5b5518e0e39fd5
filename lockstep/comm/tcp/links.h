// The connections of a group, and the thread that serves them while no other does.
//
// A thread that waits for an operation serves the connections itself: it takes their events, and the group's own thread
// sleeps. That one runs the operations for which no thread waits.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/tcp/link.h>
#include <lockstep/comm/tcp/operation.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::detail::tcp {

/// The connections between all pairs of a group's ranks, made while other programs may connect to the same ports.
///
/// During the rendezvous a rank listens on one port, and publishes its address and a random token through the store. It
/// connects to the ranks below its own; the ranks above connect to it. In a job that encrypts, both sides verify the
/// certificate of the other. Then the side that connected sends its rank, and proves with the token that it has read
/// the store (stream.h). Until then a connection has a limit of 10 s, and nothing beyond the handshake is read from it.
///
/// Returns the connections by rank; that of this rank has no socket. Error(environment) where one side refuses the
/// certificate of the other, Error(peer_lost) with the reason when a rank is lost, Error(timeout), Error(io).
std::vector<Connection> meet(const BackendContext& context);

class Links {
 public:
  /// `connections`: by rank; that of this rank has no socket. Error(io) when the process has no descriptors left.
  explicit Links(std::vector<Connection> connections);
  /// Closes connections normally, unless abort() was called.
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Starts an operation. Thread-safe.
  void start(const std::shared_ptr<Operation>& operation);

  /// Serves the connections until `awaited` is done or `deadline` is over. Returns at once where another thread does.
  /// Thread-safe.
  void serve_until_done(Operation& awaited, std::chrono::steady_clock::time_point deadline);

  /// Whether any operation is pending. Thread-safe.
  bool busy();

  /// All connections end at once; pending and later operations fail with Error(peer_lost). Thread-safe.
  void abort() noexcept;

 private:
  void run() noexcept;
  void serve(int timeout) noexcept;
  void serve_events(int timeout);
  void open_gate(bool open) noexcept;
  void read_from(std::size_t peer);
  void take_started();
  void advance(const std::shared_ptr<Operation>& operation);
  void post(const std::shared_ptr<Operation>& operation, int number, const Exchange& exchange);
  void settle();
  void settle_results();
  void watch(std::size_t peer);
  void wake() const noexcept;
  void wake_if_done() const noexcept;
  void close_all(const Error& reason);

  std::mutex started_mutex_;  ///< of `started_`: no thread waits for it while the thread moves data
  std::deque<std::shared_ptr<Operation>> started_;
  std::atomic<std::size_t> under_way_{0};

  std::mutex serving_mutex_;  ///< held by the thread that serves while it waits; taken before `mutex_`
  UniqueFd gate_;             ///< epoll of `epoll_`: where the group's own thread waits

  std::mutex mutex_;  ///< of all members below except the thread
  UniqueFd epoll_;
  UniqueFd wake_;
  std::vector<std::unique_ptr<Link>> links_;  ///< by rank; nullptr: this rank
  std::vector<std::uint32_t> watched_;        ///< the events that are waited for, by rank
  std::vector<std::size_t> unread_;           ///< peers that may have more to read, without an event of the kernel
  std::vector<std::size_t> touched_;          ///< peers that may have something to send, or be watched for other events
  Results results_;
  Operation* awaited_ = nullptr;  ///< by the thread that serves while it waits
  bool aborted_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace lockstep::detail::tcp
