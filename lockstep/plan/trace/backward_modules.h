// The attribution of backward operators to modules.
#pragma once

#include <lockstep/plan/trace/step_recorder.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::plan {

/// Installs hooks on the autograd graph of `loss`: before backward calls a node, the recorder enters the module whose
/// operator created the node.
void follow_backward(const at::Tensor& loss, const std::shared_ptr<StepRecorder>& recorder);

}  // namespace lockstep::plan
