// The base class of pending operations: a state machine that advances when it is called and never waits.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/shm/endpoint.h>

#include <atomic>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::shm {

/// The ranks that an operation waits for, and what they have not done: "has not entered it".
struct Lack {
  std::vector<int> ranks;
  std::string_view what;
};

class Operation {
 public:
  explicit Operation(std::string_view name) : name_(name) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  std::string_view name() const { return name_; }
  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Once done: throws the error it failed with, if any.
  void rethrow() const {
    if (error_) throw *error_;
  }

  /// All that blocks it now; empty when it is done or only waits for operations before it. For the slow path.
  virtual std::vector<Lack> lacks(const Endpoint& endpoint) const = 0;

  /// Ends it. The first call counts.
  void finish() { done_.store(true, std::memory_order_release); }
  void finish_with(Error error) {
    if (done()) return;
    error_ = std::move(error);
    finish();
  }

 private:
  std::string_view name_;
  std::optional<Error> error_;
  std::atomic<bool> done_ = false;
};

}  // namespace lockstep::shm
