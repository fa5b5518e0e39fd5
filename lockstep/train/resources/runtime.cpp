// Process-wide settings of libtorch and malloc: threads, determinism, TF32, kept memory, seeds of the generators.
#include <lockstep/base/environment.h>
#include <lockstep/data/random.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/train/resources/device.h>
#include <lockstep/train/resources/runtime.h>

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <torch/torch.h>

#include <limits>
#include <mutex>

namespace lockstep::train {

c10::Device choose_device(const RunConfig& config, const Group& group) {
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

at::Tensor generator_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace lockstep::train
