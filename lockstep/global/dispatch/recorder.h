// The interface of a recorder: operators on tensors without memory are recorded in a trace instead of carried out.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan_cache.h>
#include <lockstep/global/dispatch/tensor_arguments.h>

#include <ATen/core/stack.h>

#include <vector>

namespace lockstep::global {

/// One of a mesh (MeshState::recorder). Backward runs on a thread of autograd's, so calls come from several threads,
/// one after the other.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// `arguments` are those of the call, `key` is what stands for them in the mesh's plans; pushes the call's results.
  virtual void record(const c10::OperatorHandle& op, const OpInfo& info, KeyView key,
                      const torch::jit::Stack& arguments, torch::jit::Stack& results) = 0;
};

/// That of the mesh of the first global tensor or, where there is none, of the ambient mesh. nullptr: none.
Recorder* recorder_of(const std::vector<TensorArgument>& inputs);

}  // namespace lockstep::global
