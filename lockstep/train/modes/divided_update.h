// ZeRO stage 1 in the global view: parameters that are replicated along the axes of data, updated in parts.
#pragma once

#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/optimizer.h>

#include <vector>

namespace lockstep::train {

/// Each rank updates its part of the parameters, and gets the other parts by an all_gather; the optimizer's state is
/// divided in the same way. Results equal those of the whole optimizer, also for optimizers that need the norms of
/// whole parameters, because parts are global tensors. A parameter with fewer rows than ranks is not divided.
class DividedUpdate {
 public:
  DividedUpdate(NamedParameters parameters, const MeshLayout& layout);

  /// The tensors that the optimizer updates: global tensors of the parameters' names and sizes.
  const NamedParameters& parts() const { return parts_; }

  /// Sets the gradients of the parts, without communication.
  void take_gradients();
  /// Copies the parts' values to the parameters, and removes the parts' gradients. A collective.
  void share();
  /// Copies the parameters' values to the parts, after the parameters were loaded, without communication.
  void take_values();

 private:
  NamedParameters parameters_;
  NamedParameters parts_;  ///< the parameter itself where it is not divided
};

}  // namespace lockstep::train
