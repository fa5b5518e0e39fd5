// Planning tensors, with shapes but without memory: operators on them are recorded instead of carried out.
#pragma once

#include <lockstep/global/mesh_state.h>
#include <lockstep/plan/trace/step_recorder.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::plan {

/// A mesh of one, on which such tensors are. They keep it alive.
struct PlanningMesh {
  std::shared_ptr<StepRecorder> recorder;
  std::shared_ptr<global::MeshState> state;
};

/// Meets nobody.
PlanningMesh make_planning_mesh();

at::Tensor planning_tensor(const PlanningMesh& mesh, const global::LogicalShape& shape);

}  // namespace lockstep::plan
