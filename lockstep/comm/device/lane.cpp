// A side stream with high priority for collectives, joined to the program's current stream by events on both sides.
#include <lockstep/comm/device/lane.h>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

using Streams = c10::impl::VirtualGuardImpl;
using std::chrono::microseconds;

class DeviceState : public WorkState {
 public:
  explicit DeviceState(std::shared_ptr<DeviceOperation> operation) : operation_(std::move(operation)) {}

  void wait(std::chrono::milliseconds) override { operation_->order_current_stream(); }
  bool test() override { return operation_->is_complete(); }
  bool would_return() override { return true; }

 private:
  const std::shared_ptr<DeviceOperation> operation_;
};

}  // namespace

DeviceOperation::DeviceOperation(c10::Device device)
    : device_(device), begun_(device.type()), complete_(device.type()) {}

bool DeviceOperation::has_begun() const {
  const std::lock_guard lock(mutex_);
  return begun_.query();
}

bool DeviceOperation::is_complete() const {
  const std::lock_guard lock(mutex_);
  return complete_.query();
}

void DeviceOperation::order_current_stream() const {
  const c10::DeviceGuard on_device(device_);
  const std::lock_guard lock(mutex_);
  complete_.block(Streams(device_.type()).getStream(device_));
}

Lane::Lane(c10::Device device)
    : device_(device), stream_(Streams(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

std::shared_ptr<DeviceOperation> Lane::run(c10::ArrayRef<at::Tensor> tensors, c10::function_ref<void()> launch) {
  const c10::DeviceGuard on_device(device_);
  const Streams streams(device_.type());
  c10::Event ready(device_.type());
  ready.record(streams.getStream(device_));
  ready.block(stream_);
  for (const auto& tensor : tensors) {
    if (tensor.defined()) streams.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
  }
  auto operation = std::make_shared<DeviceOperation>(device_);
  operation->begun_.record(stream_);
  launch();
  operation->complete_.record(stream_);
  last_ = operation;
  return operation;
}

Backend::Pending pending(std::shared_ptr<DeviceOperation> operation) {
  return std::make_shared<DeviceState>(std::move(operation));
}

bool await_current_stream(c10::Device device, std::chrono::steady_clock::time_point deadline,
                          const std::function<void()>& meanwhile) {
  const c10::DeviceGuard on_device(device);
  c10::Event reached(device.type());
  reached.record(Streams(device.type()).getStream(device));
  constexpr microseconds kLongestPause(1000);
  for (microseconds pause(10); !reached.query(); pause = std::min(pause * 2, kLongestPause)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (meanwhile) meanwhile();
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace lockstep::detail
