// The interface of a recorder: operators on tensors without memory are recorded instead of executed.
#pragma once

#include <lockstep/global/dispatch/call_tensors.h>
#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>

#include <ATen/core/stack.h>

#include <vector>

namespace lockstep::global {

/// The recorder of a mesh (MeshState::recorder). Calls may be made on several threads (backward may run on a thread of
/// autograd), but not at the same time.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// Records a call: `arguments` are those of the call, `key` is its key in the plan cache. Pushes the call's results.
  virtual void record(const c10::OperatorHandle& op, const OpInfo& info, KeyView key,
                      const torch::jit::Stack& arguments, torch::jit::Stack& results) = 0;
};

}  // namespace lockstep::global
