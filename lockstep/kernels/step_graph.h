// Kernels of a CUDA device that are recorded once and started together from then on (CUDA graphs).
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

namespace lockstep::detail {

/// Why recording is not possible on `device`; nullopt if it is.
std::optional<std::string> why_no_graph(c10::Device device);

/// Runs `work` on a stream other than the program's current one, ordered before and after it: work that is recorded
/// later must not be on the default stream.
void on_side_stream(c10::Device device, const std::function<void()>& work);

/// Records the work that `work` puts on the current stream, without running it. Its allocations stay reserved until the
/// result is destroyed. The result runs the recorded work on the current stream, and returns at once. Throws the errors
/// of `work` and libtorch, for example if `work` waits for the device; nothing is recorded then. Errors as c10::Error.
std::function<void()> record_graph(c10::Device device, const std::function<void()>& work);

}  // namespace lockstep::detail
