// Conversion of a batch to tensors.
#pragma once

#include <lockstep/data/batch.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::train {

struct BatchTensors {
  at::Tensor pictures;  ///< float32 [N, C, H, W]
  at::Tensor labels;    ///< int64 [N]
};

/// Makes tensors that share the batch's memory and keep it alive; moves them to `device` if that is another one.
/// `channels_last` copies the pictures into that memory format. The batch must not be empty.
BatchTensors to_tensors(const std::shared_ptr<data::Batch>& batch, const c10::Device& device, bool channels_last);

}  // namespace lockstep::train
