// Broadcast of a checkpoint from one rank to all: other hosts need no access to its file.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint.h>

#include <optional>

namespace lockstep::train {

/// Every rank returns `root`'s `own` (nullopt stays nullopt); that of the other ranks is ignored. A collective.
std::optional<Checkpoint> share_checkpoint(std::optional<Checkpoint> own, const Group& group, int root = 0);

}  // namespace lockstep::train
