// CUDA graphs, and what replaces them where libtorch was built without CUDA.
#include <lockstep/base/error.h>
#include <lockstep/kernels/step_graph.h>

#if LOCKSTEP_HAS_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cuda_runtime_api.h>
#endif

#include <memory>

namespace lockstep::detail {

#if LOCKSTEP_HAS_CUDA
std::optional<std::string> why_no_graph(c10::Device device) {
  if (!device.is_cuda()) return "the parameters are on " + device.str() + ", and only CUDA devices record steps";
  return std::nullopt;
}

void on_side_stream(c10::Device device, const std::function<void()>& work) {
  const auto outside = c10::cuda::getCurrentCUDAStream(device.index());
  const auto side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index());
  at::cuda::CUDAEvent before, after;
  before.record(outside);
  before.block(side);
  {
    const c10::cuda::CUDAStreamGuard on_side(side);
    work();
  }
  after.record(side);
  after.block(outside);
}

std::function<void()> record_graph(c10::Device device, const std::function<void()>& work) {
  const auto graph = std::make_shared<at::cuda::CUDAGraph>();
  on_side_stream(device, [&] {
    // Other threads may call functions that are forbidden in a recording: the watch thread of a group queries events.
    graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph->capture_end();
      } catch (const c10::Error&) {
        // The first error has the reason.
      }
      cudaGetLastError();  // clears the error, which belongs to the recording
      throw;
    }
    graph->capture_end();
  });
  return [graph] { graph->replay(); };
}

#else

std::optional<std::string> why_no_graph(c10::Device) { return "this libtorch was built without CUDA"; }

void on_side_stream(c10::Device, const std::function<void()>& work) { work(); }

std::function<void()> record_graph(c10::Device device, const std::function<void()>&) {
  fail(ErrorKind::unsupported, "graph", "{}", why_no_graph(device).value());
}

#endif

}  // namespace lockstep::detail
