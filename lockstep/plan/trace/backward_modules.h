// The module whose derivatives backward computes at present.
#pragma once

#include <lockstep/plan/trace/step_recorder.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::plan {

/// Before backward calls a node of the graph behind `loss`, the recorder enters the module whose operator made the
/// node.
void follow_backward(const at::Tensor& loss, const std::shared_ptr<StepRecorder>& recorder);

}  // namespace lockstep::plan
