// The handle of an asynchronous collective.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

namespace lockstep {

namespace detail {
class WorkState;
}

/// Copies share the same operation. Tensors given to the operation are kept alive by it and must not be read or
/// written until `wait()` returned. Thread-safe.
class Work {
 public:
  Work() = default;  ///< an operation that is complete already
  explicit Work(std::shared_ptr<detail::WorkState> state);

  /// Blocks until the operation is complete; throws its Error if it failed, or Error(timeout) naming group, op,
  /// sequence number and the time waited when neither happened within `timeout` (default: the group's).
  void wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  /// True once `wait` would return or throw without blocking. Drives the operation on backends without a thread of
  /// their own. Never throws the operation's Error.
  bool test();

 private:
  std::shared_ptr<detail::WorkState> state_;
};

}  // namespace lockstep
