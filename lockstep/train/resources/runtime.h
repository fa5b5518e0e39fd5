// The process-wide settings of a run: device, threads, determinism, random numbers.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/device/devices.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/world/world.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}  // namespace c10

namespace lockstep::train {

using lockstep::detail::cuda_devices;
using lockstep::detail::CudaDevices;

/// Checks whether system.device ("auto", "cpu", "cuda" or "cuda:N") is possible for a rank of `world`. Error(config)
/// for CUDA without a device, or a number that no device has; and, if ranks may not share a device (`may_share`), for
/// more ranks than devices on this host, or one number for several ranks. Must be called before the rendezvous.
void require_device(std::string_view device, const World& world, const CudaDevices& devices, bool may_share);

/// The same check for a backend for CUDA tensors, which needs CUDA devices. `where`: the source of the backend's name,
/// parallel.backend or LOCKSTEP_BACKEND.
void require_device_for(std::string_view backend, std::string_view where, const World& world,
                        const CudaDevices& devices, bool may_share);

/// Whether a run computes on CUDA: if its group transfers CUDA tensors, or with "auto" for a single rank if there is a
/// device. In the global view, tensors are on the device of the group's tensors. Error(config) for several ranks with
/// parameter servers.
bool use_cuda(std::string_view device, bool group_on_cuda, int ranks, std::string_view mode,
              const CudaDevices& devices);

/// The device of a run; see use_cuda.
c10::Device choose_device(const ResolvedRun& config, const Group& group);

/// Sets the threads of one operation, TF32, and whether deterministic kernels are preferred.
void apply_runtime(const SystemConfig& config);

/// A description of a device, with the settings that determine its results and speed: "cuda:0 (TF32 convolutions;
/// cuDNN's algorithms fixed)".
std::string describe_device(const c10::Device& device, const SystemConfig& config);

/// Environment variables that set another number of threads, as NAME=VALUE; they are ignored, because the results of a
/// run depend only on its configuration. Variables with one thread, which `lockstep run` sets for all programs, are not
/// included.
std::vector<std::string> overruled_variables(const SystemConfig& config, const Environment& environment);

/// Seeds libtorch's generators the same on every rank, for the initial weights.
void seed_weights(std::int64_t seed);

/// Seeds libtorch's generators differently on each rank, for random numbers in steps (dropout).
void seed_rank(std::int64_t seed, int rank, std::int64_t step);

}  // namespace lockstep::train
