// A checkpoint that one rank has, on every rank: other hosts need not see its file.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint.h>

#include <optional>

namespace lockstep::train {

/// Every rank returns `root`'s `own` (nullopt stays nullopt); the other ranks' is not looked at. A collective.
std::optional<Checkpoint> share_checkpoint(std::optional<Checkpoint> own, const Group& group, int root = 0);

}  // namespace lockstep::train
