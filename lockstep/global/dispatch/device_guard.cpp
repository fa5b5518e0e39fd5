// The device guard for the device of global tensors, which libtorch requires. There is a single device, so it does
// nothing.
#include <lockstep/global/tensor_state.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace lockstep::global {
namespace {

class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return c10::Device(kDeviceType, 0); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }  // used by autograd of libtorch 2
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDeviceType, 0)); }
};

// Registered when the library is loaded, because autograd counts devices at the first backward of the process.
const c10::impl::DeviceGuardImplRegistrar registered(kDeviceType, [] {
  static const DeviceGuard guard;
  return &guard;
}());

}  // namespace
}  // namespace lockstep::global
