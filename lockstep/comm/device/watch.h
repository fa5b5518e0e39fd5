// The watch over operations that run on a device while no thread of the program waits for them: deadlines, lost ranks
// and errors of the engine.
#pragma once

#include <lockstep/comm/backend.h>

#include <c10/core/Device.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

namespace lockstep::detail {

class DeviceOperation;

/// How a watch acts on its backend. All are called on the watch's thread, and none while it holds a lock.
struct WatchActions {
  /// Throws Error(peer_lost) for what the engine or the other ranks report. Asked every 50 ms while an operation runs;
  /// what it throws counts once it has thrown for 300 ms, as a rank that did its part may end in good order just before
  /// this one is done.
  std::function<void()> check;
  /// An operation failed: `check` threw, or the timeout passed. Called once at most, and as if by abort() nothing is
  /// watched afterwards.
  std::function<void(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited)> failed;
  /// Ends what runs on the device, so that streams get past it. Called once, after a failure or abort().
  std::function<void()> end_engine;
};

/// A thread that looks at the operations of one lane. The timeout of an operation counts from when the device came to
/// it: the program's own work before it may take longer. Thread-safe.
class DeviceWatch {
 public:
  DeviceWatch(c10::Device device, std::chrono::milliseconds timeout, WatchActions actions);
  /// Waits until no action runs, unless it is called from one.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// In the order of the lane.
  void add(const Call& call, std::shared_ptr<const DeviceOperation> operation);
  /// From now on nothing is watched, and the engine is ended soon. Returns at once.
  void abort() noexcept;
  /// After abort() or a failure.
  bool is_over() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::detail
