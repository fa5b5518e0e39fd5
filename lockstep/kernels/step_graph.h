// Kernels of a CUDA device that are recorded once and started together from then on (CUDA graphs).
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

namespace lockstep::detail {

/// Why nothing can be recorded on `device`; nullopt where it can.
std::optional<std::string> why_no_graph(c10::Device device);

/// Runs `work` with another current stream than the program's, ordered before and after it: streams that work is
/// recorded on later must not be the default one.
void on_side_stream(c10::Device device, const std::function<void()>& work);

/// Records what `work` puts on the current stream, without running it. What it allocates stays reserved until the
/// result is gone. The result runs it on the current stream, and returns at once. Throws what `work` and libtorch
/// throw, for example where `work` waits for the device; nothing is recorded then. Errors as c10::Error.
std::function<void()> record_graph(c10::Device device, const std::function<void()>& work);

}  // namespace lockstep::detail
