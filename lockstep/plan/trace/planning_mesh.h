// Planning tensors, with shapes but without memory: operators on them are recorded instead of executed.
#pragma once

#include <lockstep/global/mesh_state.h>
#include <lockstep/plan/trace/step_recorder.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::plan {

/// The mesh of such tensors, with one rank. The tensors keep it alive.
struct PlanningMesh {
  std::shared_ptr<StepRecorder> recorder;
  std::shared_ptr<global::MeshState> state;
};

/// Creates the mesh. Does not communicate.
PlanningMesh make_planning_mesh();

at::Tensor planning_tensor(const PlanningMesh& mesh, const global::LogicalShape& shape);

}  // namespace lockstep::plan
