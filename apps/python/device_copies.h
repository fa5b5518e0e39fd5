// CallTensors of a device that travel through the host's memory.
#pragma once

#include <apps/python/tensors.h>

namespace lockstep::python {

/// While a request is executed: its tensors, or copies on the host of those that are on a device. Made and used on one
/// thread. Whoever called the operation has waited until the device had computed the tensors (await_device).
class DeviceCopies {
 public:
  explicit DeviceCopies(CallTensors& given);

  CallTensors& tensors() { return copied_ ? *copied_ : given_; }
  /// Copies the outputs to the device, and waits for it.
  void finish();

 private:
  CallTensors& given_;
  std::optional<CallTensors> copied_;
};

/// Waits until the current stream of each tensor's device has done what it has to do.
void await_device(const CallTensors& tensors);

}  // namespace lockstep::python
