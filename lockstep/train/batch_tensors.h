// Batches as tensors.
#pragma once

#include <lockstep/data/batch.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::train {

struct BatchTensors {
  at::Tensor pictures;  ///< float32 [N, C, H, W]
  at::Tensor labels;    ///< int64 [N]
};

/// Lays tensors over the batch's memory, which they keep alive, and moves them to `device` if that is another one.
/// `channels_last` copies the pictures into that memory format. The batch must not be empty.
BatchTensors to_tensors(const std::shared_ptr<data::Batch>& batch, const c10::Device& device, bool channels_last);

}  // namespace lockstep::train
