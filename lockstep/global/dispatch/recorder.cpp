#include <lockstep/global/dispatch/ambient_mesh.h>
#include <lockstep/global/dispatch/recorder.h>
#include <lockstep/global/tensor_state.h>

namespace lockstep::global {

Recorder* recorder_of(const std::vector<TensorArgument>& inputs) {
  for (const auto& each : inputs) {
    if (is_global(each.tensor)) return state_of(each.tensor).mesh->recorder();
  }
  const auto mesh = ambient_mesh();
  return mesh ? mesh->recorder() : nullptr;
}

}  // namespace lockstep::global
