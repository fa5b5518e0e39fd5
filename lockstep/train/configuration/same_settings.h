// The settings that all ranks of a run must have alike, and their comparison before anything depends on them.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/resolved_run.h>

namespace lockstep::train {

/// Keys and values of a configuration, without those that may differ between ranks: paths of files, devices, and the
/// rendezvous.
Settings common_settings(const ResolvedRun& config);

/// Returns `own` if every rank has the settings of rank 0. Else throws, on all ranks, Error(config) with the first rank
/// that differs, the keys, and both values. A collective.
Settings require_same_settings(Settings own, const Group& group);

}  // namespace lockstep::train
