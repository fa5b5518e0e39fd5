// Rules for system.device: enough CUDA devices for the ranks of a host, and the choice between CPU and CUDA.
#include <lockstep/base/error.h>
#include <lockstep/train/resources/device.h>

namespace lockstep::train {
namespace {

constexpr std::string_view kWhere = "system.device";

std::string_view who_knows_why(const CudaDevices& devices) {
  return devices.built ? ", or see what `lockstep doctor` reports of the driver" : "";
}

/// A device for each rank of this host.
void require_enough(std::string_view wanted, std::string_view where, const World& world, const CudaDevices& devices,
                    bool may_share) {
  const bool sees_its_own = devices.count == 1 && devices.visible_only;
  if (world.local_size <= devices.count || sees_its_own || may_share) return;
  fail(ErrorKind::config, where,
       "{} was requested on {} ranks of this host, which has {}: a rank needs one of its own; start fewer ranks, let "
       "them share with parallel.backend=staged, or use system.device=cpu and parallel.backend=auto",
       wanted, world.local_size, describe(devices));
}

}  // namespace

void require_device(std::string_view device, const World& world, const CudaDevices& devices, bool may_share) {
  if (!device.starts_with("cuda")) return;
  if (devices.count == 0) {
    fail(ErrorKind::config, kWhere, "{} was requested, but this libtorch finds {}; use system.device=cpu{}", device,
         describe(devices), who_knows_why(devices));
  }
  if (const auto number = lockstep::detail::number_of_cuda_device(device)) {
    if (*number >= devices.count) {
      fail(ErrorKind::config, kWhere, "{} was requested, and this process has {}, numbered from 0", device,
           describe(devices));
    }
    if (world.local_size <= 1 || may_share) return;  // where it is unknown, the rendezvous compares devices
    fail(ErrorKind::config, kWhere,
         "{} was requested on {} ranks of this host, and a rank needs a device of its own; use system.device=cuda, "
         "which gives each the device of its local rank, or let them share it with parallel.backend=staged",
         device, world.local_size);
  }
  require_enough("cuda", kWhere, world, devices, may_share);
}

void require_device_for(std::string_view backend, std::string_view where, const World& world,
                        const CudaDevices& devices, bool may_share) {
  if (devices.count == 0) {
    fail(ErrorKind::config, where, "{} carries CUDA tensors, but this libtorch finds {}; use auto{}", backend,
         describe(devices), who_knows_why(devices));
  }
  require_enough(backend, where, world, devices, may_share);
}

bool use_cuda(std::string_view device, bool group_on_cuda, int ranks, std::string_view mode,
              const CudaDevices& devices) {
  const bool global = mode == "semi_auto" || mode == "auto";
  if (!group_on_cuda) return device == "auto" && ranks == 1 && devices.count > 0 && !global;
  if (ranks > 1 && mode == "parameter_server") {
    fail(ErrorKind::config, kWhere,
         "cuda with several ranks does not go with parallel.mode {}, whose rows are on the CPU: use system.device=cpu",
         mode);
  }
  return true;
}

}  // namespace lockstep::train
