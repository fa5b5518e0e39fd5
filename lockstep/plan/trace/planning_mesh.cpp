#include <lockstep/global/dispatch/registration.h>
#include <lockstep/plan/trace/planning_mesh.h>

namespace lockstep::plan {

PlanningMesh make_planning_mesh() {
  global::register_kernels();
  PlanningMesh mesh{.recorder = std::make_shared<StepRecorder>(), .state = nullptr};
  mesh.state = std::make_shared<global::MeshState>(connect(World{}, {.backend = "self"}), std::vector<int>{1},
                                                   std::vector<std::string>{"plan"}, mesh.recorder);
  return mesh;
}

at::Tensor planning_tensor(const PlanningMesh& mesh, const global::LogicalShape& shape) {
  return global::make_without_memory({.mesh = mesh.state, .sharding = mesh.state->replicated(), .local = {}}, shape);
}

}  // namespace lockstep::plan
