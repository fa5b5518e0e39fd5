// A connection to Lockstep's store.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/store/protocol.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::store {

using Time = std::chrono::steady_clock::time_point;

/// Who listens does not speak, or has just ended: perhaps another does in a moment. Also when a connection ends later.
class Unreachable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Who listens ended the connection upon the first words, as a store of c10d does.
class NoWord : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

/// A request was not answered in time.
class Overdue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thread-safe; requests of several threads are under way at the same time.
class Client {
 public:
  /// One attempt. Errors beside Unreachable: Error(environment) when one side has no or another secret,
  /// Error(mismatch) for another version of the protocol, Error(io) for another program than a store.
  Client(const std::string& host, std::uint16_t port, const std::string& secret, Time deadline);

  /// The result of an operation. `deadline`: nullopt waits as long as the connection lasts. Overdue, Unreachable;
  /// std::runtime_error with the store's reason when it refuses.
  std::string ask(Operation operation, const MessageWriter& fields, std::optional<Time> deadline);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void send(const std::string& message, std::optional<Time> deadline);
  std::string await(Lock& lock, std::uint64_t number, std::optional<Time> deadline);
  bool receive(std::optional<Time> deadline);
  void sort_answers();
  void check_whole() const;
  void give_up(std::uint64_t number) noexcept;
  [[noreturn]] void break_off(const std::string& why);

  UniqueFd socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reading_ = false;  ///< one of the threads that wait reads for all of them
  std::string in_;        ///< only for who reads
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, std::optional<std::string>> answers_;  ///< to all requests under way
  std::string broken_;                                           ///< why the connection has ended; empty: it has not
};

}  // namespace lockstep::store
