#include <lockstep/base/error.h>
#include <lockstep/plan/search/refusal.h>

namespace lockstep::plan {
namespace {

/// Twice as many devices, until parameters divided over all of them fit.
std::optional<int> devices_that_fit(const Task& task) {
  for (int devices = task.cluster.devices() * 2; devices <= kMostDevices; devices *= 2) {
    const auto larger = resized(task.cluster, devices);
    for (const auto& shape : mesh_shapes(devices, 2)) {
      OnMesh mesh(task.folded.program, larger, shape, Constraints{});
      for (const auto use : {AxisUse::zero, AxisUse::model}) {
        std::vector<AxisUse> uses(shape.size(), AxisUse::zero);
        uses.back() = use;
        if (laid_out_as(task, mesh, uses).prediction.memory.total() <= larger.device.memory) return devices;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

void refuse(const Task& task, const Candidate& smallest) {
  constexpr double kGigabyte = 1e9;
  const auto devices = devices_that_fit(task);
  const auto& memory = smallest.prediction.memory;
  fail(ErrorKind::unsupported, "plan",
       "no plan for {} devices of \"{}\" fits: the smallest found needs {:.2f} GB on each, which has {:.2f} GB; "
       "{:.2f} GB are missing (parameters {:.2f}, gradients {:.2f}, optimizer {:.2f}, activations {:.2f}). {}",
       task.cluster.devices(), task.cluster.name, memory.total().value / kGigabyte,
       task.cluster.device.memory.value / kGigabyte, smallest.score.missing.value / kGigabyte,
       memory.parameters.value / kGigabyte, memory.gradients.value / kGigabyte,
       memory.optimizer_state.value / kGigabyte, memory.activations.value / kGigabyte,
       devices ? fmt::format("{} devices of this kind would do; or make the batch smaller", *devices)
               : fmt::format("Not even {} devices of this kind would do; make the batch or the model smaller",
                             kMostDevices));
}

}  // namespace lockstep::plan
