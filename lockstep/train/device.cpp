#include <lockstep/base/error.h>
#include <lockstep/train/device.h>

namespace lockstep::train {
namespace {

constexpr std::string_view kWhere = "system.device";

std::string by_variable(const CudaDevices& devices) {
  return devices.visible_only ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *devices.visible_only) : "";
}

}  // namespace

bool use_cuda(std::string_view device, const World& world, const CudaDevices& devices) {
  if (device == "cpu") return false;
  if (device == "auto") return devices.count > 0 && world.size == 1;
  if (devices.count == 0) {
    fail(ErrorKind::config, kWhere,
         "cuda was asked for, but this libtorch finds no CUDA device{}; use system.device=cpu", by_variable(devices));
  }
  if (world.local_size > devices.count) {
    fail(
        ErrorKind::config, kWhere,
        "cuda was asked for on {} ranks of this host, which has {} CUDA device{}{}: a rank needs one of its own; start "
        "fewer ranks, or use system.device=cpu",
        world.local_size, devices.count, devices.count == 1 ? "" : "s", by_variable(devices));
  }
  if (world.size > 1) {
    fail(
        ErrorKind::config, kWhere,
        "cuda was asked for on {} ranks, but no backend of this version carries CUDA tensors; use system.device=cpu or "
        "a single rank",
        world.size);
  }
  return true;
}

}  // namespace lockstep::train
