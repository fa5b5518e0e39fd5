// The client of Lockstep's store: one connection.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/store/protocol.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::net {
class TlsStream;
}

namespace lockstep::store {

using Time = std::chrono::steady_clock::time_point;

/// The listener does not answer, or the connection has ended. A retry may succeed.
class Unreachable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The listener closed the connection after the greeting, as a store of c10d does.
class NoWord : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

/// The host is up, and no process listens at the port.
class NobodyListens : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

/// A request was not answered in time.
class Overdue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The credentials that a client presents to the store of its job.
struct Credentials {
  std::string secret{};                       ///< empty: none
  std::shared_ptr<const net::PeerTls> tls{};  ///< nullptr: the connection is not encrypted
};

/// Thread-safe; several threads can have pending requests at the same time.
class Client {
 public:
  /// Makes one attempt to connect. With `tls` a store that does not encrypt is accepted at a loopback address only.
  /// Errors besides Unreachable: Error(environment) when only one side has a secret or the secrets differ, when one
  /// side refuses the certificate of the other, or when only one side encrypts; Error(mismatch) for another version of
  /// the protocol; Error(io) for a program that is not a store.
  Client(const std::string& host, std::uint16_t port, const Credentials& credentials, Time deadline);
  ~Client();

  /// Sends a request and returns its result. Without a `deadline` it waits as long as the connection lasts. Throws
  /// Overdue, Unreachable, and std::runtime_error with the store's reason when the store refuses the
  /// request.
  std::string ask(Operation operation, const MessageWriter& fields, std::optional<Time> deadline);

  /// Ends the connection: threads that wait for an answer get Unreachable.
  void end() const noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void send(const std::string& message, std::optional<Time> deadline);
  std::string await(Lock& lock, std::uint64_t number, std::optional<Time> deadline);
  bool receive(std::optional<Time> deadline);
  std::size_t receive_some(std::span<char> into);
  std::size_t send_some(std::string_view from);
  bool flushed();
  void sort_answers();
  void check_whole() const;
  void give_up(std::uint64_t number) noexcept;
  [[noreturn]] void break_off(const std::string& why);

  UniqueFd socket_;
  std::mutex stream_mutex_;                 ///< guards the stream, which one thread reads while another one writes
  std::unique_ptr<net::TlsStream> stream_;  ///< for an encrypted connection
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reading_ = false;  ///< one of the waiting threads reads for all of them
  std::string in_;        ///< input buffer, used by the reading thread only
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, std::optional<std::string>> answers_;  ///< answers to all pending requests
  std::string broken_;                                           ///< why the connection has ended; empty while it works
};

}  // namespace lockstep::store
