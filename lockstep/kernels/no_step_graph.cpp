// A replacement of step_graph.cpp for libtorch without CUDA.
#include <lockstep/base/error.h>
#include <lockstep/kernels/step_graph.h>

namespace lockstep::detail {

std::optional<std::string> why_no_graph(c10::Device) { return "this libtorch was built without CUDA"; }

void on_side_stream(c10::Device, const std::function<void()>& work) { work(); }

std::function<void()> record_graph(c10::Device device, const std::function<void()>&) {
  fail(ErrorKind::unsupported, "graph", "{}", why_no_graph(device).value());
}

}  // namespace lockstep::detail
