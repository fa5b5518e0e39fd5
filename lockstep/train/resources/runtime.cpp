// Process-wide settings of libtorch and malloc: threads, determinism, TF32, kept memory, seeds of the generators; and
// the rules for system.device: enough CUDA devices for the ranks of a host, and the choice between CPU and CUDA.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/data/sampler.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/train/resources/runtime.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <malloc.h>
#include <limits>

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

c10::Device choose_device(const ResolvedRun& config, const Group& group) {
  const c10::Device of_group(group.device());
  const bool cuda =
      use_cuda(config.system.device, of_group.is_cuda(), group.size(), config.parallel.mode, cuda_devices());
  if (!cuda) return torch::kCPU;
  return of_group.is_cuda() ? of_group : c10::Device(torch::kCUDA);
}

namespace {

// The same malloc settings as `lockstep run` sets by GLIBC_TUNABLES, as far as a running process can change them: a
// step frees and allocates the same memory repeatedly, and should not request it from the kernel each time.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace

void apply_runtime(const SystemConfig& config) {
  keep_freed_memory();
  set_num_threads(static_cast<int>(config.threads));
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(config.deterministic, /*warn_only=*/true);
  context.setDeterministicCuDNN(config.deterministic);
  context.setBenchmarkCuDNN(!config.deterministic);
  context.setAllowTF32CuDNN(config.tf32 != "off");
  context.setAllowTF32CuBLAS(config.tf32 == "on");
}

std::string describe_device(const c10::Device& device, const SystemConfig& config) {
  if (!device.is_cuda()) return device.str();
  return fmt::format("{} (TF32 {}; cuDNN's algorithms {})", device.str(), config.tf32,
                     config.deterministic ? "fixed" : "chosen by measuring");
}

std::vector<std::string> overruled_variables(const SystemConfig& config, const Environment& environment) {
  std::vector<std::string> outer_launchers;
  for (const auto* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"}) {
    const auto value = find(environment, name);
    if (!value || *value == "1" || *value == std::to_string(config.threads)) continue;
    outer_launchers.push_back(fmt::format("{}={}", name, *value));
  }
  return outer_launchers;
}

void seed_weights(std::int64_t seed) { torch::manual_seed(static_cast<std::uint64_t>(seed)); }

void seed_rank(std::int64_t seed, int rank, std::int64_t step) {
  auto mixed = data::mix64(static_cast<std::uint64_t>(seed));
  mixed = data::mix64(mixed + static_cast<std::uint64_t>(rank) + 1);
  torch::manual_seed(data::mix64(mixed + static_cast<std::uint64_t>(step)));
}

}  // namespace lockstep::train
