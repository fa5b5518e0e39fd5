// State of which each rank has some tensors whole, as it is saved.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/sharded/sharded_save.h>

namespace lockstep::train {

/// What the ranks of `group` save together, where each passes the tensors that it has: those that have one of a name
/// have the same. A collective. Error(mismatch) where shapes or dtypes of one name differ.
SavedState held_by_some(NamedTensors own, const Group& group);

}  // namespace lockstep::train
