// Copies by the thread that executes the request, on the device's default stream.
#include <apps/python/device_copies.h>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace lockstep::python {
namespace {

bool on_device(const at::Tensor& tensor) { return tensor.defined() && !tensor.is_cpu(); }

bool any_on_device(const CallTensors& tensors) {
  return std::any_of(tensors.inputs.begin(), tensors.inputs.end(), on_device) ||
         std::any_of(tensors.outputs.begin(), tensors.outputs.end(), on_device);
}

void synchronize_current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

std::vector<at::Tensor> on_host(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  copies.reserve(tensors.size());
  for (const auto& tensor : tensors) copies.push_back(on_device(tensor) ? tensor.to(at::kCPU) : tensor);
  return copies;
}

}  // namespace

DeviceCopies::DeviceCopies(CallTensors& given) : given_(given) {
  if (any_on_device(given)) copied_ = CallTensors{on_host(given.inputs), on_host(given.outputs)};
}

void DeviceCopies::finish() {
  if (!copied_) return;
  for (std::size_t i = 0; i < given_.outputs.size(); ++i) {
    auto& output = given_.outputs[i];
    if (!on_device(output)) continue;
    output.copy_(copied_->outputs[i]);
    synchronize_current_stream(output.device());
  }
}

void await_device(const CallTensors& tensors) {
  for (const auto* list : {&tensors.inputs, &tensors.outputs}) {
    for (const auto& tensor : *list) {
      if (on_device(tensor)) synchronize_current_stream(tensor.device());
    }
  }
}

}  // namespace lockstep::python
