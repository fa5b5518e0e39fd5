// The order of work on a device's streams around collectives: the stream of a group, and the events that join it with
// the streams of the program. Written against libtorch's interface for all devices, so it compiles without CUDA.
#pragma once

#include <lockstep/comm/backend.h>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>

#include <chrono>
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

}  // namespace lockstep::detail
