// The settings that all ranks of a run must have alike, and their comparison before anything depends on them.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/config.h>

namespace lockstep::train {

/// Keys and values of a configuration, without those that may differ from rank to rank: where a host has its files,
/// what it computes with, and how its process meets the others.
Settings common_settings(const RunConfig& config);

/// Returns `own` where it is that of rank 0 on every rank. Else, on all ranks, Error(config) with the first rank that
/// differs, the keys, and both values. A collective.
Settings require_same_settings(Settings own, const Group& group);

}  // namespace lockstep::train
