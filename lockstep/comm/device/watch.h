// The watch over operations that run on a device while no thread of the program waits for them: it checks deadlines,
// lost ranks and errors of the engine.
#pragma once

#include <lockstep/comm/backend.h>

#include <c10/core/Device.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

namespace lockstep::detail {

class DeviceOperation;

/// The callbacks of a watch into its backend. All are called on the watch's thread, and none while it holds a lock.
struct WatchActions {
  /// Throws Error(peer_lost) for errors that the engine or the other ranks report. Called every 50 ms while an
  /// operation runs. The error counts only when the callback has thrown for 300 ms, because a rank that completed its
  /// part may end normally just before this rank is done.
  std::function<void()> check;
  /// An operation failed: `check` threw, or the timeout passed. Called at most once; afterwards nothing is watched, as
  /// after abort().
  std::function<void(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited)> failed;
  /// Ends the work that runs on the device, so that streams continue behind it. Called once, after a failure or
  /// abort().
  std::function<void()> end_engine;
};

/// A thread that checks the operations of one lane. The timeout of an operation counts from the time when the device
/// reached it: the program's own work before it may take longer. Thread-safe.
class DeviceWatch {
 public:
  DeviceWatch(c10::Device device, std::chrono::milliseconds timeout, WatchActions actions);
  /// Waits until no action runs, except when an action calls it.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Adds an operation, in the order of the lane.
  void add(const Call& call, std::shared_ptr<const DeviceOperation> operation);
  /// After this call nothing is watched, and the engine is ended soon. Returns at once.
  void abort() noexcept;
  /// True after abort() or a failure.
  bool is_over() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::detail
