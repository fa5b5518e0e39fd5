// ZeRO stage 1 in the global view: parameters that are replicated along the axes of data, updated in parts.
#pragma once

#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/optimizer.h>

#include <vector>

namespace lockstep::train {

/// Each rank updates its part of the parameters, and gets the other parts by an all_gather; the optimizer's state is
/// divided likewise. Results equal those of the whole optimizer, also of those that need the norms of whole parameters,
/// because parts are global tensors. A parameter with fewer rows than ranks stays as it is.
class DividedUpdate {
 public:
  DividedUpdate(NamedParameters parameters, const MeshLayout& layout);

  /// What the optimizer updates: global tensors of the parameters' names and sizes.
  const NamedParameters& parts() const { return parts_; }

  /// Gives the parts their gradients: nothing is sent.
  void take_gradients();
  /// Gives the parameters the parts' values, and removes the parts' gradients. A collective.
  void share();
  /// The reverse, after the parameters were loaded. Nothing is sent.
  void take_values();

 private:
  NamedParameters parameters_;
  NamedParameters parts_;  ///< the parameter itself where it is not divided
};

}  // namespace lockstep::train
