// The connections of a group and the thread that serves them: it runs operations, whether or not a thread waits.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/tls/link.h>
#include <lockstep/comm/tls/operation.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::detail::tls {

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

  /// Whether any operation is pending. Thread-safe.
  bool busy();

  /// All connections end at once; pending and later operations fail with Error(peer_lost). Thread-safe.
  void abort() noexcept;

 private:
  void run() noexcept;
  void serve_events(int timeout);
  void read_from(std::size_t peer);
  void take_started();
  void advance(const std::shared_ptr<Operation>& operation);
  void post(const std::shared_ptr<Operation>& operation, int number, const Exchange& exchange);
  void settle();
  void settle_results();
  void watch(std::size_t peer);
  void wake() const noexcept;
  void close_all(const Error& reason);

  std::mutex started_mutex_;  ///< of `started_`: no thread waits for it while the thread moves data
  std::deque<std::shared_ptr<Operation>> started_;
  std::atomic<std::size_t> under_way_{0};

  std::mutex mutex_;  ///< of all members below except the thread
  UniqueFd epoll_;
  UniqueFd wake_;
  std::vector<std::unique_ptr<Link>> links_;  ///< by rank; nullptr: this rank
  std::vector<std::uint32_t> watched_;        ///< the events that are waited for, by rank
  std::vector<std::size_t> unread_;           ///< peers that may have more to read, without an event of the kernel
  std::vector<std::size_t> touched_;          ///< peers that may have something to send, or be watched for other events
  Results results_;
  bool aborted_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace lockstep::detail::tls
