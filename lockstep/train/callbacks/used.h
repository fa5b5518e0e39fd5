// The callbacks that a configuration names in callbacks.use.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/config.h>

namespace lockstep::train {

/// Makes them, in their order. Error(config) with file and line for what is no list of names with their keys, for a
/// name that no part has, and for wrong keys and values of a part.
Callbacks make_used_callbacks(const CallbacksConfig& config);

}  // namespace lockstep::train
