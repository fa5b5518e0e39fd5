// A checkpoint that rank 0 read, on every rank: other hosts need not see its file.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint.h>

#include <optional>

namespace lockstep::train {

/// Every rank returns rank 0's `own` (nullopt stays nullopt); the other ranks' is not looked at. A collective.
std::optional<Checkpoint> share_checkpoint(std::optional<Checkpoint> own, const Group& group);

}  // namespace lockstep::train
