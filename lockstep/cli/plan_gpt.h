// The training step of a GPT of any size, for `lockstep plan` without a configuration (`lockstep train` has no GPT).
#pragma once

#include <lockstep/train/planned_step.h>

#include <string_view>

namespace lockstep::cli {

/// `text` is like "layers=96,width=12288,heads=96,context=2048,vocabulary=50304,batch=1024"; what is not given keeps
/// the default. Trained with AdamW on batches of `batch` sequences of `context` tokens. Error(invalid_argument) for
/// unknown names and numbers that are none.
train::PlannedStep trace_gpt(std::string_view text);

}  // namespace lockstep::cli
