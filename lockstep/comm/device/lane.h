// The order of work on a device's streams around collectives: the stream of a group, the events that join it with the
// streams of the program, and the watch over operations for which no thread waits. Written against libtorch's interface
// for all devices, so it compiles without CUDA.
#pragma once

#include <lockstep/comm/backend.h>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace lockstep::detail {

/// One operation on a lane. Thread-safe.
class DeviceOperation {
 public:
  explicit DeviceOperation(c10::Device device);
  virtual ~DeviceOperation() = default;
  DeviceOperation(const DeviceOperation&) = delete;
  DeviceOperation& operator=(const DeviceOperation&) = delete;

  /// Whether the device has reached the operation: all earlier work on the streams is complete.
  virtual bool has_begun() const;
  virtual bool is_complete() const;
  /// Work that is put on the current stream after this call runs after the operation.
  void order_current_stream() const;

 private:
  friend class Lane;

  const c10::Device device_;
  mutable std::mutex mutex_;  ///< libtorch does not guarantee that several threads may query events
  c10::Event begun_;
  c10::Event complete_;
};

/// The stream on which a group's operations run, in the order of the calls. One thread at a time.
class Lane {
 public:
  explicit Lane(c10::Device device);

  /// Lets `launch` put work on the stream. It runs after all work that the current stream has now, and before the
  /// work that follows DeviceOperation::order_current_stream(). The memory of `tensors` is not reused before the
  /// operation is complete, even if another thread frees them earlier.
  std::shared_ptr<DeviceOperation> run(c10::ArrayRef<at::Tensor> tensors, c10::function_ref<void()> launch);

  const c10::Stream& stream() const { return stream_; }
  c10::Device device() const { return device_; }
  /// The last operation; none before the first.
  const std::shared_ptr<DeviceOperation>& last() const { return last_; }

 private:
  c10::Device device_;
  c10::Stream stream_;
  std::shared_ptr<DeviceOperation> last_;
};

/// The state of a Work on a device: waiting for it orders the current stream.
Backend::Pending pending(std::shared_ptr<DeviceOperation> operation);

/// Blocks until the current stream of `device` has completed all work that it has now; false at the deadline. Calls
/// `meanwhile` repeatedly.
bool await_current_stream(c10::Device device, std::chrono::steady_clock::time_point deadline,
                          const std::function<void()>& meanwhile = {});

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
