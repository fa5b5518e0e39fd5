// The process-wide settings of a run: device, threads, determinism, random numbers.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}

namespace lockstep::train {

/// The device of a run; see use_cuda in device.h.
c10::Device choose_device(const RunConfig& config, const Group& group);

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

/// Gets and sets the state of the CPU generator as a uint8 tensor.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);

}  // namespace lockstep::train
