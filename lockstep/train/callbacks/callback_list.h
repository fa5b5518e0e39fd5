// The callbacks of a run: those of the program and of callbacks.use.
#pragma once

#include <lockstep/train/callback.h>
#include <lockstep/train/parts.h>

namespace lockstep::train {

/// The callbacks of the program, which are `of_program`, and those that callbacks.use names. Error(config) with the
/// place in the file for unknown names and options, an item that is given twice, the errors of Callback::check, and two
/// callbacks, or a callback and the run, that write to the same path (Callback::own_paths).
Callbacks make_used_callbacks(const ResolvedRun& config, Callbacks of_program = {});

}  // namespace lockstep::train
