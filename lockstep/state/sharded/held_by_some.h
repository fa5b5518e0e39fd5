// The saved form of a state of which each rank holds some whole tensors.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/state/named_tensors.h>
#include <lockstep/state/sharded/sharded_save.h>

namespace lockstep::state {

/// The state that the ranks of `group` save together. Each rank passes the tensors that it holds; tensors of one name
/// must be equal on all ranks that hold them. A collective. Error(mismatch) if shapes or dtypes of one name differ.
SavedState held_by_some(NamedTensors own, const Group& group);

}  // namespace lockstep::state
